// bench_loader [TARGETS]: how fast batches are built, on one core. Not a test: run by hand on a
// quiet machine; docs/benchmarks/2026-11-21-data.md has its figures.
//
// For every way of batching, targets a second of building a batch of each length, and of the loader
// as the trainer uses it, its thread and its reader on the same core. Best of five passes.
#include "batching/loader.h"

#include <sched.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <vector>

#include "base/elapsed.h"
#include "batching/test_corpus.h"

namespace lmtrain {
namespace {

constexpr int64_t kBatchTokens = 65536;
constexpr int64_t kMinLength = 64;
constexpr int64_t kMaxLength = 8192;
constexpr int kPasses = 5;

using Clock = std::chrono::steady_clock;

void stay_on_one_core() {
  cpu_set_t core;
  CPU_ZERO(&core);
  CPU_SET(sched_getcpu(), &core);
  sched_setaffinity(0, sizeof core, &core);
}

struct Speed {
  double targets = 0;
  double seconds = 0;
};

void measure(const TokenShard& shard, const std::string& batching, int64_t max_length,
             int64_t num_batches) {
  SequenceConfig sequence;
  sequence.min_length = kMinLength;
  sequence.max_length = max_length;
  sequence.batching = value_named<Batching>(batching).value();
  sequence.schedule.type = LengthScheduleType::kConstant;
  const Clock::time_point begin = Clock::now();
  const BatchOrder order({.shard = shard,
                          .fingerprint = "bench",
                          .sequence = sequence,
                          .data_seed = 1,
                          .batch_tokens = kBatchTokens,
                          .run = {.steps = num_batches}});
  const double construction = seconds_since(begin);

  std::map<int64_t, Speed> best;
  double best_loader = 0;
  for (int pass = 0; pass < kPasses; ++pass) {
    std::map<int64_t, Speed> speeds;
    for (int64_t k = 0; k < num_batches; ++k) {
      const Clock::time_point start = Clock::now();
      const Batch batch = order.batch(k);
      Speed& speed = speeds[batch.length];
      speed.seconds += seconds_since(start);
      speed.targets += static_cast<double>(batch.num_targets);
    }
    for (const auto& [length, speed] : speeds) {
      Speed& fastest = best[length];
      if (fastest.seconds == 0 || speed.seconds < fastest.seconds) fastest = speed;
    }
    const Clock::time_point start = Clock::now();
    Loader loader(order, 0, num_batches);
    double targets = 0;
    for (int64_t k = 0; k < num_batches; ++k)
      targets += static_cast<double>(loader.next().num_targets);
    best_loader = std::max(best_loader, targets / seconds_since(start));
  }
  std::printf("%-7s construction %.1f ms\n", batching.c_str(), 1e3 * construction);
  for (const auto& [length, speed] : best) {
    std::printf("%-7s length %5lld  %7.1f M targets/s\n", batching.c_str(),
                static_cast<long long>(length), speed.targets / speed.seconds / 1e6);
  }
  std::printf("%-7s loader        %7.1f M targets/s\n", batching.c_str(), best_loader / 1e6);
}

}  // namespace
}  // namespace lmtrain

int main(int argc, char** argv) {
  const int64_t targets = argc > 1 ? std::atoll(argv[1]) : 20'000'000;
  lmtrain::stay_on_one_core();
  std::vector<int64_t> sizes;
  int64_t total = 0;
  for (uint64_t seed = 0; total < targets; ++seed) {
    for (const int64_t size : lmtrain::random_sizes(seed, 1000, 30'000)) {
      sizes.push_back(size);
      total += size;
    }
  }
  const lmtrain::TokenShard shard = lmtrain::make_shard(sizes);
  std::printf("%zu documents, %lld tokens, batches of %lld positions, one core\n", sizes.size(),
              static_cast<long long>(total), static_cast<long long>(lmtrain::kBatchTokens));
  const int64_t num_batches = targets / lmtrain::kBatchTokens;
  for (const char* batching : {"bucket", "pad", "pack"})
    lmtrain::measure(shard, batching, lmtrain::kMaxLength, num_batches);
  for (int64_t length = lmtrain::kMinLength; length <= lmtrain::kMaxLength; length *= 2)
    lmtrain::measure(shard, "concat", length, num_batches);
  return 0;
}
