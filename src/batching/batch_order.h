// Which rows make up batch k: a pure function of (fingerprint, seed, config, k). docs/batching.md states it exactly.
//
//   bucket   documents cut into pieces of 2^k targets (balanced or longest first); a tail below min_length becomes a row of
//            min_length padded at the right. One endless stream of pieces a length, permuted anew each epoch.
//   pad      whole documents (in chunks of max_length), each in the smallest power-of-two row that holds it.
//   concat   documents joined in one order, cut at max_length; the target at a document boundary is masked.
//
// The lengths of the batches follow the schedule: constant and natural mix them in proportion to their tokens, grow_p2 and
// grow_linear favour short ones early in each cycle (Pouransari et al., Dataset Decomposition, 2405.13226).
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "batching/batch.h"
#include "config/config.h"
#include "formats/token_shard.h"

namespace lmtrain {

struct LengthSummary {
  int64_t length = 0;
  int64_t rows_per_epoch = 0;     // pieces
  int64_t targets_per_epoch = 0;  // without padding
  int64_t batches = 0;            // in the planned run
};

// How long the run is; exactly one is set.
struct RunLength {
  int64_t steps = 0;
  int64_t tokens = 0;
  double epochs = 0;
};

class BatchOrder {
 public:
  // The shard must outlive the order. Error(kConfig) for a combination that cannot be (natural and grow_* with concat, batch
  // tokens no multiple of max_length...). Error(kData) when there is nothing to train on.
  BatchOrder(const TokenShard& shard, const std::string& fingerprint, const SequenceConfig& sequence,
             const DataConfig& data, int64_t data_seed, int64_t batch_tokens, const RunLength& run);
  ~BatchOrder();

  // Batches of the planned run: exact for `steps` and `epochs`; for `tokens` the number expected to reach them.
  int64_t num_batches() const;
  // Expected targets of the whole run.
  int64_t num_targets() const;
  // Any k >= 0, also past num_batches(), except in an `epochs` run. Thread-safe.
  int64_t batch_length(int64_t k) const;
  Batch batch(int64_t k) const;
  const std::vector<LengthSummary>& lengths() const;  // ascending, only those that occur

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace lmtrain
