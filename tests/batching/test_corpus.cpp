// See test_corpus.h.
#include "batching/test_corpus.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <numeric>
#include <set>
#include <utility>

#include "base/random.h"
#include "base/text.h"
#include "formats/block_sums.h"

namespace lmtrain {

TokenShard make_shard(const std::vector<int64_t>& document_sizes) {
  static int counter = 0;
  const std::filesystem::path path = std::filesystem::path(::testing::TempDir()) /
                                     str("order-", getpid(), "-", counter++, ".shard");
  const int64_t total = std::accumulate(document_sizes.begin(), document_sizes.end(), int64_t{0});
  TokenShardWriter writer(path, total + 1);
  int32_t id = 1;
  for (const int64_t size : document_sizes) {
    std::vector<int32_t> ids(static_cast<size_t>(size));
    std::iota(ids.begin(), ids.end(), id);
    id += static_cast<int32_t>(size);
    writer.add_document(ids, static_cast<uint64_t>(size));
  }
  writer.finish();
  TokenShard shard(path, true);
  std::filesystem::remove(path);
  std::filesystem::remove(block_sums_path(path));
  return shard;
}

std::vector<int64_t> random_sizes(uint64_t seed, int64_t num_documents, int64_t longest) {
  std::vector<int64_t> sizes = {0, 1, 2, 3, 9, 17, 65, 64, 66, longest};
  while (static_cast<int64_t>(sizes.size()) < num_documents) {
    const double u = random_uniform(seed, RandomStream::kSample, sizes.size());
    sizes.push_back(static_cast<int64_t>(std::pow(static_cast<double>(longest), u)));
  }
  // The odd ones anywhere.
  std::vector<int64_t> shuffled;
  const Permutation order(sizes.size(), seed);
  for (size_t i = 0; i < sizes.size(); ++i) shuffled.push_back(sizes[order(i)]);
  return shuffled;
}

double Mixture::weight_of(int64_t document) const {
  if (runs.empty()) return 1;
  const auto after = std::upper_bound(
      runs.begin(), runs.end(), document,
      [](int64_t wanted, const SourceRun& run) { return wanted < run.first_document; });
  return sources[static_cast<size_t>(std::prev(after)->source)].weight;
}

Mixture one_source() { return {}; }

Mixture mixture_of(int64_t num_documents, const std::vector<double>& weights) {
  Mixture mixture;
  for (const double weight : weights) mixture.sources.push_back({"", weight});
  int32_t source = 0;
  for (int64_t document = 0; document < num_documents; document += 1 + document % 5) {
    mixture.runs.push_back({document, source});
    source = (source + 1) % static_cast<int32_t>(weights.size());
  }
  return mixture;
}

Coverage::Coverage(const TokenShard& shard, Mixture mixture, bool apart)
    : shard_(shard),
      mixture_(std::move(mixture)),
      apart_(apart),
      count_(static_cast<size_t>(shard.num_tokens()), 0) {
  for (int64_t document = 0; document < shard.num_documents(); ++document) {
    document_of_.insert(document_of_.end(), static_cast<size_t>(shard.document_size(document)),
                        document);
  }
}

std::string Coverage::add(const Batch& batch) {
  const auto size = static_cast<size_t>(batch.rows * batch.length);
  if (batch.inputs.size() != size || batch.targets.size() != size) return "sizes";
  const int64_t before = total_;
  for (size_t i = 0; i < size; ++i) {
    const std::string problem = check_position(batch, i);
    if (!problem.empty()) return str(problem, " at ", i, " of batch ", batch.index);
  }
  if (batch.num_targets != total_ - before) return "num_targets";
  std::set<int64_t> documents;
  for (const int32_t input : batch.inputs) {
    if (input != 0) documents.insert(document_of(input));
  }
  if (documents != std::set<int64_t>(batch.documents.begin(), batch.documents.end()))
    return str("documents of batch ", batch.index);
  return check_segments(batch);
}

std::string Coverage::check_position(const Batch& batch, size_t i) {
  const int32_t input = batch.inputs[i];
  const int32_t target = batch.targets[i];
  if (target == kNoTarget) return "";
  const auto offset = static_cast<size_t>(target) - 1;
  if (input != target - 1 || document_of(input) != document_of(target)) return "target";
  ++count_[offset];
  ++total_;
  return "";
}

std::string Coverage::check_segments(const Batch& batch) const {
  if (!apart_) return batch.segments.empty() ? "" : "segments where rows are one";
  std::vector<int32_t> segments = batch.segments;
  for (int64_t row = 0; segments.size() < static_cast<size_t>(batch.rows); ++row) {
    if (!batch.segments.empty()) return "fewer segments than rows";
    segments.push_back(static_cast<int32_t>(row * batch.length));
  }
  size_t next = 0;
  int32_t previous = 0;
  for (size_t i = 0; i < batch.inputs.size(); ++i) {
    const int32_t input = batch.inputs[i];
    const bool begins = next < segments.size() && segments[next] == static_cast<int32_t>(i);
    if (begins) ++next;
    if (i % static_cast<size_t>(batch.length) == 0 && !begins)
      return str("row without segment ", i);
    if (!begins && input != 0 &&
        (previous == 0 || input != previous + 1 || document_of(input) != document_of(previous))) {
      return str("two sequences in a segment at ", i);
    }
    previous = input;
  }
  return next == segments.size() ? "" : "segments out of order";
}

bool Coverage::is(double epochs) const {
  for (int64_t document = 0; document < shard_.num_documents(); ++document) {
    const double times = epochs * mixture_.weight_of(document);
    for (int64_t i = shard_.document_begin(document); i < shard_.document_end(document); ++i) {
      const auto found = static_cast<double>(count(i));
      const bool is_target = i > shard_.document_begin(document);
      if (is_target ? found < std::floor(times) || found > std::ceil(times) : found != 0) {
        return false;
      }
    }
  }
  return true;
}

}  // namespace lmtrain
