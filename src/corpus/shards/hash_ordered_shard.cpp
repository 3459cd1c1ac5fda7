#include "corpus/shards/hash_ordered_shard.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <system_error>
#include <vector>

namespace lmtrain {
namespace {

std::filesystem::path with_suffix(std::filesystem::path path, const char* suffix) {
  path += suffix;
  return path;
}

std::vector<uint64_t> read_hashes(const std::filesystem::path& path) {
  std::vector<uint64_t> hashes;
  read_pieces(path, [&](std::string_view piece) {  // a whole number of hashes
    const size_t begin = hashes.size();
    hashes.resize(begin + piece.size() / sizeof(uint64_t));
    std::memcpy(hashes.data() + begin, piece.data(), piece.size());
  });
  return hashes;
}

}  // namespace

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

void HashOrderedShardWriter::add_document(const EncodedDocument& document) {
  unordered_.add_document(document.ids, document.bytes);
  const uint64_t hash = text_hash(document.hash);
  hashes_.write({reinterpret_cast<const char*>(&hash), sizeof hash});
}

void HashOrderedShardWriter::finish() {
  unordered_.finish();
  hashes_.finish();
  const std::vector<uint64_t> hashes = read_hashes(hashes_path_);
  std::vector<int64_t> order(hashes.size());
  std::iota(order.begin(), order.end(), int64_t{0});
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
    return hashes[static_cast<size_t>(a)] < hashes[static_cast<size_t>(b)];
  });
  const TokenShard unordered(unordered_path_, false);
  TokenShardWriter ordered(path_, vocab_size_);
  std::vector<int32_t> ids;
  for (const int64_t document : order) {
    ids.resize(static_cast<size_t>(unordered.document_size(document)));
    unordered.read_tokens(unordered.document_begin(document), ids);
    ordered.add_document(ids, unordered.raw_bytes(document));
  }
  ordered.finish();
}

}  // namespace lmtrain
