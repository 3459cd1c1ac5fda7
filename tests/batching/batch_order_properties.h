// Every valid (batching, cut, schedule, shuffle), with and without a mixture, as orders of data.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <ostream>
#include <string>
#include <vector>

#include "batching/batch_order.h"
#include "batching/test_corpus.h"

namespace lmtrain {

inline constexpr int64_t kBatchTokens = 256;

using Schedule = LengthScheduleType;

struct OrderSetting {
  Batching batching;
  BucketCut cut;
  Schedule schedule;
  bool shuffle;
  bool mixture;
};

// Every pair that config/check.cpp lets through.
inline std::vector<OrderSetting> valid_settings() {
  std::vector<OrderSetting> settings;
  for (const bool shuffle : {true, false}) {
    for (const bool mixture : {false, true}) {
      const auto add = [&](Batching batching, BucketCut cut, Schedule schedule) {
        settings.push_back({batching, cut, schedule, shuffle, mixture});
      };
      for (const Schedule schedule :
           {Schedule::kConstant, Schedule::kLinear, Schedule::kRoot, Schedule::kStep}) {
        add(Batching::kPack, BucketCut::kBalanced, schedule);
        add(Batching::kConcat, BucketCut::kBalanced, schedule);
      }
      for (const auto& [schedule, name] : enum_names(Schedule{})) {
        add(Batching::kPad, BucketCut::kBalanced, schedule);
        add(Batching::kBucket, BucketCut::kBalanced, schedule);
        add(Batching::kBucket, BucketCut::kLongest, schedule);
      }
    }
  }
  return settings;
}

inline std::string name_of(const OrderSetting& s) {
  return name_of(s.batching) + "_" + name_of(s.cut) + "_" + name_of(s.schedule) +
         (s.shuffle ? "_shuffled" : "_in_order") + (s.mixture ? "_mixture" : "");
}

inline void PrintTo(const OrderSetting& setting, std::ostream* out) { *out << name_of(setting); }

inline RunLength steps(int64_t n) { return {.steps = n}; }
inline RunLength tokens(int64_t n) { return {.tokens = n}; }
inline RunLength epochs(double n) { return {.epochs = n}; }

class BatchOrderProperties : public ::testing::TestWithParam<OrderSetting> {
 protected:
  BatchOrder order(const TokenShard& shard, const RunLength& run, int64_t seed = 7,
                   const std::string& fingerprint = "corpus",
                   const std::vector<Replan>& replans = {}) const {
    return order_of(GetParam().schedule, shard, run, seed, fingerprint, replans);
  }
  // The same without a cap: what the rows are before they are divided.
  BatchOrder uncapped(const TokenShard& shard, const RunLength& run) const {
    return order_of(caps() ? Schedule::kConstant : GetParam().schedule, shard, run, 7, "corpus",
                    {});
  }
  Coverage coverage(const TokenShard& shard) const {
    return {shard, mixture(shard), GetParam().batching != Batching::kConcat};
  }
  // An even number of epochs is whole for each source.
  Mixture mixture(const TokenShard& shard) const {
    return GetParam().mixture ? mixture_of(shard.num_documents(), {1, 2, 0.5}) : one_source();
  }
  bool caps() const {
    const Schedule schedule = GetParam().schedule;
    return schedule == Schedule::kLinear || schedule == Schedule::kRoot ||
           schedule == Schedule::kStep;
  }
  double targets_an_epoch(const TokenShard& shard) const {
    const Mixture sources = mixture(shard);
    double targets = 0;
    for (int64_t i = 0; i < shard.num_documents(); ++i) {
      const auto size = static_cast<double>(shard.document_size(i));
      targets += std::max(0.0, size - 1) * sources.weight_of(i);
    }
    return targets;
  }

 private:
  BatchOrder order_of(Schedule schedule, const TokenShard& shard, const RunLength& run,
                      int64_t seed, const std::string& fingerprint,
                      const std::vector<Replan>& replans) const {
    SequenceConfig sequence;
    sequence.max_length = 64;
    sequence.min_length = 8;
    sequence.batching = GetParam().batching;
    sequence.cut = GetParam().cut;
    sequence.schedule.type = schedule;
    sequence.schedule.cycles = 3;
    sequence.schedule.duration = {70, TrainingDuration::Unit::kPercent};
    sequence.schedule.lengths = {8, 32};
    sequence.schedule.boundaries = {{20, TrainingDuration::Unit::kPercent},
                                    {60, TrainingDuration::Unit::kPercent}};
    DataConfig data;
    data.shuffle = GetParam().shuffle;
    const Mixture sources = mixture(shard);
    data.train = sources.sources;
    return BatchOrder({.shard = shard,
                       .sources = sources.runs,
                       .fingerprint = fingerprint,
                       .sequence = sequence,
                       .data = data,
                       .data_seed = seed,
                       .batch_tokens = kBatchTokens,
                       .run = run,
                       .replans = replans});
  }
};

// Rows of `length` that are not masked, also where a cap has divided them.
inline int64_t rows_drawn(const Batch& batch, int64_t length) {
  int64_t rows = 0;
  for (size_t i = 0; i < batch.inputs.size(); i += static_cast<size_t>(length)) {
    rows += batch.inputs[i] != 0;
  }
  return rows;
}

}  // namespace lmtrain
