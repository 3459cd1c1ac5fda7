// A BatchPlan says which length batch k has, and how far the stream of each length has come before
// it. It is a list of periods: the run as it began, and one for each change of its total on resume.
// Inside a period the schedule orders the lengths and caps them. It takes a byte of memory for each
// batch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "batching/curriculum.h"
#include "batching/plan_summary.h"
#include "batching/row_stream.h"
#include "batching/run_length.h"
#include "batching/shuffle_key.h"
#include "config/config.h"
#include "schedule/length_cap.h"

namespace lmtrain {

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
    int64_t num_rows;      // rows from first_row on; the rest of the batch is masked
    int64_t batch_length;  // the stream's length, or the cap where that is less
  };

  // `streams` (ascending lengths, each with rows) must outlive the plan.
  BatchPlan(const std::vector<LengthStream>& streams, const SequenceConfig& sequence,
            int64_t batch_tokens, const ShuffleKey& key);
  // Plans `run` from first_batch on. Throws Error(kInternal) where the first call does not pass 0,
  // and where a later call passes less than the one before. Throws Error(kConfig) when not exactly
  // one member of `run` is above 0, when `run` has more than 2^30 batches, when it has no batch in
  // the first call, and where LengthCap throws it; also what `poll` throws. After an exception the
  // plan cannot be used.
  void extend(int64_t first_batch, const RunLength& run, const Poll& poll);

  int64_t num_batches() const { return num_batches_; }
  // Any k >= 0 is allowed, but past the end of an `epochs` run it throws Error(kInternal).
  Slot at(int64_t k) const;
  // Returns how many rows of streams[index] come before batch k. Any k >= 0 is allowed, also past
  // the end.
  int64_t row_before(int64_t k, size_t index) const;
  // Returns how many batches of the planned run have rows of streams[index].
  int64_t batches_of(size_t index) const;
  // Returns the cycles of the last period.
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
