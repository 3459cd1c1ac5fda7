// A BatchPlan says which length batch k has, and how many rows of each length come before it. It is
// a list of periods: the run as it began, and one for each change of its length. In a
// period the schedule orders and caps the lengths. A plan takes a byte of memory for each batch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/stop.h"
#include "batching/plan_summary.h"
#include "batching/row_stream.h"
#include "config/config.h"
#include "schedule/run_clock.h"

namespace lmtrain {

// These functions order batches of different lengths. A length is given by its index in ascending
// order; its value does not matter here.
//
//   mix_lengths   all lengths in proportion throughout (constant, natural)
//   grow_lengths  cycles; each cycle begins with short lengths and ends with long ones
//                 (grow_linear, grow_p2: Pouransari et al. 2405.13226, as OLMo-core does it)
//
// With a key the order is shuffled, without one it is regular. The functions are pure. A `poll` is
// called now and then, and may end them by an exception.
enum class Growth { kLinear, kP2 };

// Divides `total` into integers in proportion to `weights`, by largest remainder; ties go to the
// first. They add up to `total`. No argument may be negative, and one weight must be above 0.
std::vector<int64_t> split_in_proportion(int64_t total, const std::vector<int64_t>& weights);

// Returns weights[length][sub-cycle]. A cycle has as many sub-cycles as lengths. In a cycle, the
// batches of a length are divided among the sub-cycles in proportion to weights[length].
std::vector<std::vector<int64_t>> sub_cycle_weights(Growth growth, size_t num_lengths);

// These return the index of the length of every batch, in batch order. Length i has counts[i]
// batches. At most 256 lengths are allowed.
std::vector<uint8_t> mix_lengths(const std::vector<int64_t>& counts, std::optional<uint64_t> key,
                                 const Poll& poll = throw_if_stopped);
std::vector<uint8_t> grow_lengths(const std::vector<int64_t>& counts, Growth growth,
                                  int64_t num_cycles, std::optional<uint64_t> key,
                                  const Poll& poll = throw_if_stopped);

// A LengthSequence holds an order of lengths and answers in constant time how many batches of a
// length come before a position.
class LengthSequence {
 public:
  LengthSequence(std::vector<uint8_t> order, size_t num_lengths,
                 const Poll& poll = throw_if_stopped);

  int64_t size() const { return static_cast<int64_t>(order_.size()); }
  size_t at(int64_t position) const { return order_[static_cast<size_t>(position)]; }
  // Returns how many entries of [0, position) are `index`. Requires position <= size().
  int64_t count_before(int64_t position, size_t index) const;

 private:
  std::vector<uint8_t> order_;
  size_t num_lengths_;
  std::vector<int64_t> counts_;  // [block][length]: batches before each block of kBlock batches
};

// Returns the caps of a run, ascending: the whole numbers max_length/2^j that are at least
// min_length. So there are few shapes, and rows of max_length divide into rows of the cap.
std::vector<int64_t> possible_caps(int64_t min_length, int64_t max_length);

// A LengthCap gives the longest row allowed at batch k for the schedules linear, root and step
// (docs/batching.md). For the other schedules it is always max_length.
//
//   linear, root   min + (max - min)·(k/D)^(1/r), D: `duration`, r: 1 or `root_degree`
//   step           lengths[i] until boundaries[i], then max
//
// The value is rounded down to one of possible_caps(), or up to the least cap.
class LengthCap {
 public:
  struct Step {
    int64_t first_batch;
    int64_t length;
    bool operator==(const Step&) const = default;
  };

  // Requires 1 <= min_length <= max_length, and for step a boundary for each length. `run` must
  // count steps: its total is the number of batches, skipped ones included. Throws Error(kConfig)
  // for boundaries that do not increase in this run, and for durations of time.
  LengthCap(const LengthScheduleConfig& schedule, int64_t min_length, int64_t max_length,
            const RunClock& run);

  // Returns the longest row allowed in a batch, in positions. Requires batch >= 0.
  int64_t at(int64_t batch) const;
  // Returns this cap with the steps after `batch` moved: `left` batches from there on become
  // `new_left`. Both are above 0.
  LengthCap with_left(int64_t batch, int64_t left, int64_t new_left) const;
  const std::vector<Step>& steps() const { return steps_; }  // ascending, the first at batch 0

 private:
  LengthCap() = default;
  void add(double first_batch, int64_t length);

  std::vector<Step> steps_;
};

// A LengthStream holds the rows of one length. An epoch of the mixture has each source as often as
// its weight says.
struct LengthStream {
  int64_t length = 0;
  RowStream rows;
  double targets_per_epoch = 0;
  double positions_per_epoch = 0;
};

class BatchPlan {
 public:
  struct Slot {
    size_t index;          // index of the stream
    int64_t first_row;     // the first row of the batch, in that stream
    int64_t num_rows;      // rows from first_row on; other rows of the batch are masked
    int64_t batch_length;  // the stream's length, or the cap where that is less
  };

  // `streams` (ascending lengths, each with rows) must outlive the plan.
  BatchPlan(const std::vector<LengthStream>& streams, const SequenceConfig& sequence,
            int64_t batch_tokens, const ShuffleKey& key);
  // Plans `run` from first_batch on. With `keeps_pace` the lengths keep the order and the
  // parts of the rest of the plan before, and its caps come at the same parts of it. After an
  // exception the plan cannot be used. Throws the errors of LengthCap and of `poll`, and:
  //   Error(kInternal)  first_batch is not 0 in the first call, or is less than in the call before
  //   Error(kConfig)    not exactly one member of `run` is above 0; `run` has more than 2^30
  //                     batches; or it has no batch in the first call
  void extend(int64_t first_batch, const RunLength& run, const Poll& poll, bool keeps_pace = false);

  int64_t num_batches() const { return num_batches_; }
  // Returns the slot of batch k. Any k >= 0 is allowed, but past the end of an `epochs` run it
  // throws Error(kInternal).
  Slot at(int64_t k) const;
  // Returns how many rows of streams[index] come before batch k. Any k >= 0 is allowed, also past
  // the end.
  int64_t row_before(int64_t k, size_t index) const;
  // Returns how many batches of the planned run have rows of streams[index].
  int64_t batches_of(size_t index) const;
  // Returns the cycles of the last period, which must have been planned without keeps_pace.
  std::vector<CycleSummary> cycles() const;
  std::vector<int64_t> batch_lengths() const;  // ascending: every length that a batch can have
  // Returns how many batches in [begin, end) have each of batch_lengths(), 0 <= begin. Its time
  // does not grow with the number of batches.
  std::vector<int64_t> count_lengths(int64_t begin, int64_t end) const;

 private:
  struct Period {
    int64_t first_batch;
    std::vector<int64_t> first_row;  // by length: where its stream stands then
    std::vector<int64_t> end_row;    // by length: rows from here on are masked (kNoEnd: never)
    LengthSequence planned;
    LengthCap cap;
  };

  int64_t rows_a_batch(size_t index) const { return batch_tokens_ / streams_[index].length; }
  double targets_a_batch() const;
  int64_t num_cycles() const;
  std::vector<int64_t> count_batches(const RunLength& run, const std::vector<int64_t>& first_row,
                                     const std::vector<int64_t>& end_row) const;
  std::vector<uint8_t> order_lengths(const std::vector<int64_t>& counts, int64_t first_batch,
                                     const Poll& poll) const;
  // Returns an order of `count` lengths. At each point of it, a length has the part of the batches
  // that the last period, from first_batch on, has given it by the same part of its rest.
  std::vector<uint8_t> rest_of_lengths(int64_t first_batch, int64_t count, const Poll& poll) const;
  const Period& period_of(int64_t k) const;
  int64_t batches_before(const Period& period, int64_t k, size_t index) const;

  const std::vector<LengthStream>& streams_;
  SequenceConfig sequence_;
  int64_t batch_tokens_;
  ShuffleKey key_;
  std::vector<int64_t> positions_;  // by length, an epoch
  std::optional<LengthSequence> endless_;
  std::vector<Period> periods_;
  int64_t num_batches_ = 0;
};

}  // namespace lmtrain
