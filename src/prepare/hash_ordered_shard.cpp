#include "prepare/hash_ordered_shard.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <system_error>
#include <vector>

#include "base/bytes.h"
#include "base/examine.h"
#include "base/hash.h"

namespace lmtrain {
namespace {

std::vector<HashedSource> read_hashes(const std::filesystem::path& path) {
  std::vector<HashedSource> hashes;
  read_chunks(path, [&](std::string_view chunk) {  // a whole number of records
    const size_t begin = hashes.size();
    hashes.resize(begin + chunk.size() / sizeof(HashedSource));
    std::memcpy(hashes.data() + begin, chunk.data(), chunk.size());
  });
  return hashes;
}

}  // namespace

std::vector<size_t> hash_order(const std::vector<HashedSource>& added) {
  std::vector<size_t> order(added.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return added[a].hash < added[b].hash; });
  return order;
}

std::vector<int32_t> sources_in_hash_order(const std::vector<HashedSource>& added) {
  std::vector<int32_t> sources;
  sources.reserve(added.size());
  for (const size_t document : hash_order(added))
    sources.push_back(static_cast<int32_t>(added[document].source));
  return sources;
}

HashOrderedShardWriter::HashOrderedShardWriter(const std::filesystem::path& path,
                                               int64_t vocab_size)
    : path_(path),
      unordered_path_(with_suffix(path, ".unordered")),
      hashes_path_(with_suffix(path, ".hashes")),
      vocab_size_(vocab_size),
      unordered_(unordered_path_, vocab_size),
      hashes_(hashes_path_) {}

HashOrderedShardWriter::HashOrderedShardWriter(const std::filesystem::path& path,
                                               int64_t vocab_size,
                                               const HashOrderedProgress& progress)
    : path_(path),
      unordered_path_(with_suffix(path, ".unordered")),
      hashes_path_(with_suffix(path, ".hashes")),
      vocab_size_(vocab_size),
      unordered_(unordered_path_, vocab_size, progress.shard),
      hashes_(hashes_path_, progress.hashes),
      keeps_files_(true) {}

HashOrderedShardWriter::~HashOrderedShardWriter() {
  if (keeps_files_) return;
  std::error_code ignored;
  std::filesystem::remove(unordered_path_, ignored);
  std::filesystem::remove(block_sums_path(unordered_path_), ignored);
  std::filesystem::remove(hashes_path_, ignored);
}

HashOrderedProgress HashOrderedShardWriter::sync() {
  keeps_files_ = true;
  return {unordered_.sync(), hashes_.sync()};
}

void HashOrderedShardWriter::add_document(const EncodedDocument& document, int32_t source) {
  unordered_.add_document(document.ids, document.bytes);
  const HashedSource record{text_hash(document.hash), source};
  hashes_.write(object_bytes(record));
}

std::vector<int32_t> HashOrderedShardWriter::finish() {
  unordered_.finish();
  hashes_.finish();
  const std::vector<HashedSource> added = read_hashes(hashes_path_);
  const TokenShard unordered(unordered_path_, false);
  TokenShardWriter ordered(path_, vocab_size_);
  std::vector<int32_t> ids;
  std::vector<int32_t> sources;
  for (const size_t index : hash_order(added)) {
    const auto document = static_cast<int64_t>(index);
    ids.resize(static_cast<size_t>(unordered.document_size(document)));
    unordered.read_tokens(unordered.document_begin(document), ids);
    ordered.add_document(ids, unordered.raw_bytes(document));
    sources.push_back(static_cast<int32_t>(added[index].source));
  }
  ordered.finish();
  return sources;
}

}  // namespace lmtrain
