// See test_corpus.h.
#include "batching/test_corpus.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <numeric>

#include "base/random.h"
#include "base/text.h"

namespace lmtrain {

TokenShard make_shard(const std::vector<int64_t>& document_sizes) {
  static int counter = 0;
  const std::filesystem::path path =
      std::filesystem::path(testing::TempDir()) / str("order-", getpid(), "-", counter++, ".shard");
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

Coverage::Coverage(const TokenShard& shard)
    : shard_(shard), count_(static_cast<size_t>(shard.num_tokens()), 0) {
  for (int64_t document = 0; document < shard.num_documents(); ++document) {
    document_of_.insert(document_of_.end(), static_cast<size_t>(shard.document_size(document)),
                        document);
  }
}

void Coverage::add(const Batch& batch) {
  ASSERT_EQ(batch.inputs.size(), static_cast<size_t>(batch.rows * batch.length));
  ASSERT_EQ(batch.targets.size(), batch.inputs.size());
  ASSERT_EQ(batch.documents.size(), static_cast<size_t>(batch.rows));
  int64_t num_targets = 0;
  for (size_t i = 0; i < batch.inputs.size(); ++i) {
    const auto row = i / static_cast<size_t>(batch.length);
    const int32_t input = batch.inputs[i];
    const int32_t target = batch.targets[i];
    if (i % static_cast<size_t>(batch.length) == 0) {
      ASSERT_EQ(batch.documents[row],
                input == 0 ? -1 : document_of_[static_cast<size_t>(input) - 1]);
    }
    if (target == kNoTarget) continue;
    const auto place = static_cast<size_t>(target) - 1;
    ASSERT_EQ(input, target - 1);
    ASSERT_EQ(document_of_[place - 1], document_of_[place]);
    ++count_[place];
    ++num_targets;
  }
  ASSERT_EQ(batch.num_targets, num_targets);
  total_ += num_targets;
}

bool Coverage::all_between(int64_t least, int64_t most) const {
  for (int64_t document = 0; document < shard_.num_documents(); ++document) {
    for (int64_t i = shard_.document_begin(document); i < shard_.document_end(document); ++i) {
      const int64_t count = count_[static_cast<size_t>(i)];
      const bool is_target = i > shard_.document_begin(document);
      if (is_target ? count < least || count > most : count != 0) return false;
    }
  }
  return true;
}

}  // namespace lmtrain
