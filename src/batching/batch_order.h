// Which rows make up batch k: a pure function of (fingerprint, seed, config, k). docs/batching.md
// states it exactly.
//
//   bucket   documents cut into pieces of 2^k targets; tails below min_length share rows
//   pad      whole documents, each in the smallest power-of-two row that holds it
//   pack     whole documents, as many to a row as fit
//   concat   documents joined in one order, cut at max_length; targets at their boundaries masked
//
// Each length is one endless stream of rows, permuted anew each epoch; sources of different weight
// are interleaved in it (row_stream.h). The plan (batch_plan.h) says which length comes when; a row
// above the cap of its batch is divided into rows of the cap. Immutable after construction.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "batching/batch.h"
#include "batching/plan_summary.h"
#include "batching/run_length.h"
#include "config/config.h"
#include "formats/source_run.h"
#include "formats/token_shard.h"

namespace lmtrain {

// All that an order follows from.
struct BatchOrderSpec {
  const TokenShard& shard;  // must outlive the order
  // Which documents are of which entry of data.train; none: all of the first.
  std::vector<SourceRun> sources = {};
  std::string fingerprint = {};  // of the prepared corpus
  // These, and batch_tokens, are such as load_config accepts.
  SequenceConfig sequence = {};
  DataConfig data = {};
  int64_t data_seed = 0;
  int64_t batch_tokens = 0;          // positions of a batch
  RunLength run = {};                // as it was planned first
  std::vector<Replan> replans = {};  // in the order they were made
};

class BatchOrder {
 public:
  // Error(kConfig) for a run that cannot be planned. Error(kData) when there is nothing to train
  // on.
  explicit BatchOrder(const BatchOrderSpec& spec);
  ~BatchOrder();

  // Batches of the planned run: exact for `steps` and `epochs`; for `tokens` the number expected to
  // reach them.
  int64_t num_batches() const;
  // Targets of those batches: exact for whole `epochs`, else as expected from the average row of
  // each length.
  int64_t num_targets() const;
  // Any k >= 0, also past num_batches() (in proportion, without end), except in an `epochs` run.
  // Thread-safe. batch() throws the errors of TokenShard::read_tokens and require_unchanged.
  int64_t batch_length(int64_t k) const;
  // With a share, reads the tokens of its rows alone; segments are left out only where the whole
  // batch has none, so that a row is computed in the same way in every share.
  Batch batch(int64_t k, const BatchShare& share = {}) const;

  const std::vector<LengthSummary>& lengths() const;  // ascending, only those that occur
  // Every length that a batch can have, ascending. Memory and compilation must be ready for each.
  std::vector<int64_t> batch_lengths() const;
  // How many of the batches in [begin, end) have each of batch_lengths(), without visiting the
  // batches. Requires batches that batch_length() knows.
  std::vector<int64_t> count_lengths(int64_t begin, int64_t end) const;
  // Targets per epoch before truncation; equals the sum over lengths(), since nothing is truncated.
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
