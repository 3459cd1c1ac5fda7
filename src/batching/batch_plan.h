// Which length batch k has, and how far the stream of each length has come before it. A plan is a
// list of periods: the run as it began, and one for each change of its total on resume. Inside a
// period the schedule orders the lengths and caps them. A byte a batch. Immutable but for
// extend().
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

// The rows of one length, as many as the mixture has of them.
struct LengthStream {
  int64_t length = 0;
  RowStream rows;
  double targets_per_epoch = 0;
  double positions_per_epoch = 0;
};

class BatchPlan {
 public:
  struct Slot {
    size_t index;          // of the length
    int64_t first_row;     // in the stream of that length
    int64_t num_rows;      // from there on; the rest of the batch is masked
    int64_t batch_length;  // after the cap
  };

  // `streams` (ascending lengths, each with rows) must outlive the plan.
  BatchPlan(const std::vector<LengthStream>& streams, const SequenceConfig& sequence,
            int64_t batch_tokens, const ShuffleKey& key);
  // Plans `run` from first_batch on. Error(kConfig) for more batches than can be planned, or none.
  void extend(int64_t first_batch, const RunLength& run);

  int64_t num_batches() const { return num_batches_; }
  // Any k >= 0; Error(kInternal) past the end of an `epochs` run.
  Slot at(int64_t k) const;
  // How many rows of the stream of length `index` come before batch k.
  int64_t row_before(int64_t k, size_t index) const;
  // How many batches of the planned run have length `index`.
  int64_t batches_of(size_t index) const;
  std::vector<CycleSummary> cycles() const;
  std::vector<int64_t> batch_lengths() const;  // ascending: every length a batch can have
  // Batches of each of those lengths in [begin, end), 0 <= begin; found without visiting them.
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
  std::vector<uint8_t> order_lengths(const std::vector<int64_t>& counts, int64_t first_batch) const;
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
