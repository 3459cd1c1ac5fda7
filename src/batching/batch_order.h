// A BatchOrder says which rows make up batch k: a pure function of (fingerprint, seed, config, k).
// docs/batching.md states it exactly.
//
//   bucket   documents cut into sequences of 2^k targets; tails below min_length share rows
//   pad      whole documents, each in the smallest power-of-two row that holds it
//   pack     whole documents, as many to a row as fit
//   concat   documents joined in one order, cut at max_length; targets at their boundaries masked
//
// With pad and pack a document of more than max_length targets is cut every max_length targets.
//
// Each length is one endless stream of rows, permuted anew each epoch; sources of different weight
// are interleaved in it (row_stream.h). The plan (batch_plan.h) says which length comes when; a row
// above the cap of its batch is divided into rows of the cap. After construction only replan()
// changes anything.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/stop.h"
#include "batching/batch.h"
#include "batching/plan_summary.h"
#include "config/config.h"
#include "formats/token_shard.h"

namespace lmtrain {

// These determine an order of data.
struct BatchOrderSpec {
  const TokenShard& shard;  // must outlive the order
  // The entry of data.train that each document comes from; empty: all come from the first.
  std::vector<SourceRun> sources = {};
  std::string fingerprint = {};  // identifies the prepared corpus
  // load_config must accept these and batch_tokens.
  SequenceConfig sequence = {};
  DataConfig data = {};
  int64_t data_seed = 0;
  int64_t batch_tokens = 0;          // positions in a batch
  RunLength run = {};                // as it was planned first
  std::vector<Replan> replans = {};  // in the order they were made
  Poll poll = throw_if_stopped;      // may end the planning
};

class BatchOrder {
 public:
  // Throws what the poll throws, and:
  //   Error(kConfig)    the run cannot be planned (BatchPlan::extend)
  //   Error(kData)      there is nothing to train on, or more than SequenceRows takes (rows.h)
  //   Error(kInternal)  `sources` do not fit (group_sources), or `replans` are out of order
  explicit BatchOrder(const BatchOrderSpec& spec);
  ~BatchOrder();

  // Adds a replan. No other thread may use the order meanwhile. Throws Error(kInternal) if it
  // begins before an earlier replan; Error(kConfig) as the constructor does; and what the poll
  // throws.
  void replan(const Replan& replan, const Poll& poll = throw_if_stopped);

  // Returns the number of batches of the planned run: exact for `steps` and `epochs`; for `tokens`
  // the number expected to reach them.
  int64_t num_batches() const;
  // Returns the targets of the planned batches: exact for whole `epochs`, else expected from the
  // average row of each length.
  int64_t num_targets() const;
  // Returns the length of the rows of batch k. Here and in batch() any k >= 0 is allowed. Past
  // num_batches() lengths come in proportion without end; an `epochs` run throws Error(kInternal)
  // there. Both functions are thread-safe.
  int64_t batch_length(int64_t k) const;
  // Builds batch k. With a share, reads only the tokens of the share's rows. `segments` is empty
  // only if each row of the whole batch is one segment, so that every share computes alike. Throws
  // the errors of TokenShard::read_tokens and require_unchanged.
  Batch batch(int64_t k, const BatchShare& share = {}) const;

  const std::vector<LengthSummary>& lengths() const;  // ascending, only those that occur
  // Returns every length that a batch can have, ascending: memory must suffice for each.
  std::vector<int64_t> batch_lengths() const;
  // Returns how many batches in [begin, end) have each of batch_lengths(). Its time does not grow
  // with the number of batches. Requires batches that batch_length() accepts.
  std::vector<int64_t> count_lengths(int64_t begin, int64_t end) const;
  // Returns the number of targets in an epoch, counted from the documents. No way of batching drops
  // a target: the sum over lengths() is the same, except for rounding if sources have weights.
  int64_t targets_given() const;
  std::vector<CycleSummary> cycles() const;  // of the plan since the last Replan
  const std::vector<SourceSummary>& sources() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace lmtrain
