// Which rows make up batch k: a pure function of (fingerprint, seed, config, k). docs/batching.md
// states it exactly.
//
//   bucket   documents cut into pieces of 2^k targets; a tail below min_length in a padded row
//   pad      whole documents, each in the smallest power-of-two row that holds it
//   concat   documents joined in one order, cut at max_length; targets at their boundaries masked
//
// Each length is one endless stream of rows, permuted anew each epoch; batches may straddle epochs.
// The lengths of the batches follow the schedule: constant and natural mix them in proportion to
// their tokens, grow_p2 and grow_linear favour short ones early in each cycle. Immutable after
// construction.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "batching/batch.h"
#include "config/config.h"
#include "formats/token_shard.h"

namespace lmtrain {

// The accounts of one length of rows, as they are cut from the documents.
struct LengthSummary {
  int64_t length = 0;
  int64_t rows_per_epoch = 0;
  int64_t pieces_per_epoch = 0;   // parts of documents in those rows
  int64_t targets_per_epoch = 0;  // positions that train
  int64_t batches = 0;            // in the planned run

  int64_t positions_per_epoch() const { return rows_per_epoch * length; }
  int64_t padding_per_epoch() const { return positions_per_epoch() - targets_per_epoch; }
};

// One cycle of the planned run; schedules without cycles have one.
struct CycleSummary {
  int64_t first_batch = 0;
  std::vector<int64_t> batches;  // beside lengths()
};

// The accounts of one entry of data.train.
struct SourceSummary {
  int32_t source = 0;  // its place in data.train
  double weight = 1;
  int64_t documents = 0;
  int64_t targets = 0;  // of one pass over it
  double epochs = 0;    // passes over it in the planned run
};

// How long the run is; exactly one is set.
struct RunLength {
  int64_t steps = 0;
  int64_t tokens = 0;
  double epochs = 0;
};

// The total was changed on resume: what is left from `first_batch` on is planned anew. Batches
// before it stay as they are, and every length's stream goes on where it was.
struct Replan {
  int64_t first_batch = 0;
  RunLength left;  // steps and tokens: still to come from first_batch on; epochs: of the whole run
};

class BatchOrder {
 public:
  // The shard must outlive the order. `replans` in the order they were made. Error(kConfig) for a
  // combination that cannot be (natural and grow_* with concat, batch tokens no multiple of
  // max_length...). Error(kData) when there is nothing to train on.
  BatchOrder(const TokenShard& shard, const std::string& fingerprint,
             const SequenceConfig& sequence, const DataConfig& data, int64_t data_seed,
             int64_t batch_tokens, const RunLength& run, const std::vector<Replan>& replans = {});
  ~BatchOrder();

  // Batches of the planned run: exact for `steps` and `epochs`; for `tokens` the number expected to
  // reach them.
  int64_t num_batches() const;
  // Targets of those batches: exact for whole `epochs`, else as expected from the average row of
  // each length.
  int64_t num_targets() const;
  // Any k >= 0, also past num_batches() (in proportion, without end), except in an `epochs` run.
  // Thread-safe.
  int64_t batch_length(int64_t k) const;
  Batch batch(int64_t k) const;
  const std::vector<LengthSummary>& lengths() const;  // ascending, only those that occur
  // Ascending: every length a batch can have. What memory and compilation must be ready for.
  std::vector<int64_t> batch_lengths() const;
  // Targets that the documents of an epoch hold. What lengths() train of it falls short by what was
  // truncated: nothing.
  int64_t targets_given() const;
  std::vector<CycleSummary> cycles() const;  // of the plan in force, the last one
  const std::vector<SourceSummary>& sources() const;
  // Passes over each of sources() before batch k, as expected inside an epoch, exact at its end.
  std::vector<double> source_epochs(int64_t k) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace lmtrain
