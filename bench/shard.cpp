// bench_shard [GB] [TOKENS_A_SECOND] [ROW]: what it costs to hold a token shard to the checksums of
// its blocks while training reads it for the first time. Not a test: run by hand on a quiet
// machine; docs/reliability.md has its figures. The shard lies in TMPDIR while the program runs.
//
// Reads every row of ROW targets (1024) once, in random order, as the loader does, its inputs and
// then its targets, with the checksums and without, and relates the difference to the time in which
// a model of TOKENS_A_SECOND trains on the shard. Seconds are those of this thread on its
// processor, so that a slow disk and other programs do not count.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <span>
#include <vector>

#include "base/random.h"
#include "base/temporary_folder.h"
#include "formats/block_sums.h"
#include "formats/token_shard.h"

namespace lmtrain {
namespace {

constexpr int64_t kVocabulary = 8192;  // two bytes a token
constexpr int64_t kDocumentTokens = 2000;

double processor_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

// Documents that all begin at another token of the same ids.
void write(const std::filesystem::path& path, int64_t num_tokens) {
  std::vector<int32_t> ids(1 << 20);
  for (size_t i = 0; i < ids.size(); ++i) {
    ids[i] = static_cast<int32_t>(random_bits(1, RandomStream::kBench, i) %
                                  static_cast<uint64_t>(kVocabulary));
  }
  const auto most = static_cast<int64_t>(ids.size()) - kDocumentTokens;
  TokenShardWriter writer(path, kVocabulary);
  for (int64_t document = 0; writer.num_tokens() < num_tokens; ++document) {
    const auto begin = static_cast<size_t>(document * 7919 % most);
    writer.add_document(std::span(ids).subspan(begin, size_t{kDocumentTokens}), kDocumentTokens);
  }
  writer.finish();
}

struct Reading {
  double open = 0;  // seconds
  double read = 0;
};

Reading read_all(const std::filesystem::path& path, int64_t row_targets) {
  Reading reading;
  double begin = processor_seconds();
  const TokenShard shard(path, /*verify_tokens=*/false);
  reading.open = processor_seconds() - begin;
  const int64_t num_rows = (shard.num_tokens() - 1) / row_targets;
  const Permutation order(static_cast<uint64_t>(num_rows), 1);
  std::vector<int32_t> ids(static_cast<size_t>(row_targets));
  begin = processor_seconds();
  for (int64_t i = 0; i < num_rows; ++i) {
    const int64_t row = static_cast<int64_t>(order(static_cast<uint64_t>(i))) * row_targets;
    shard.read_tokens(row, ids);
    shard.read_tokens(row + 1, ids);
  }
  reading.read = processor_seconds() - begin;
  return reading;
}

void measure(double gigabytes, double tokens_a_second, int64_t row_targets) {
  const TemporaryFolder folder;
  const std::filesystem::path path = folder.path() / "train.bin";
  write(path, static_cast<int64_t>(gigabytes * 1e9 / 2));
  // The first reading brings the file into memory, as far as it fits.
  read_all(path, row_targets);
  const Reading with = read_all(path, row_targets);
  std::filesystem::remove(block_sums_path(path));
  const Reading without = read_all(path, row_targets);
  const double tokens = gigabytes * 1e9 / 2;
  const double cost = with.read - without.read;
  std::printf("%.1f GB, %.0f M tokens, rows of %lld targets in random order, one core\n", gigabytes,
              tokens / 1e6, static_cast<long long>(row_targets));
  std::printf("with checksums     opened in %.3f s, read in %.2f s\n", with.open, with.read);
  std::printf("without            opened in %.3f s, read in %.2f s\n", without.open, without.read);
  std::printf("their cost         %.2f s, %.2f GB/s, %.2f ns a token\n", cost,
              gigabytes / std::max(cost, 1e-9), 1e9 * cost / tokens);
  const double training = tokens / tokens_a_second;
  std::printf("of training        %.5f %% of %.0f s, at %.0f tokens/s\n", 100 * cost / training,
              training, tokens_a_second);
}

}  // namespace
}  // namespace lmtrain

int main(int argc, char** argv) {
  const double gigabytes = argc > 1 ? std::atof(argv[1]) : 1;
  const double tokens_a_second = argc > 2 ? std::atof(argv[2]) : 10'000;
  const int64_t row_targets = argc > 3 ? std::atoll(argv[3]) : 1024;
  lmtrain::measure(gigabytes, tokens_a_second, row_targets);
  return 0;
}
