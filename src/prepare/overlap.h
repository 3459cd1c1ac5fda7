// Finds how much of the evaluation text is in the training text too, by the hashes of documents
// (text_hash(), or the hash of the ids) while the text is scanned. The result is exact up to 65536
// different evaluation documents; of more, those with the smallest hashes are looked for, which are
// a random sample. Empty documents do not count.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <utility>
#include <vector>

namespace lmtrain {

// A random sample of documents that depends on their text alone: those with the smallest hashes.
inline constexpr size_t kMostHashes = size_t{1} << 16;

// Keeps the kMostHashes smallest hashes that were given in `values`. Returns the value of `hash`,
// and whether it is new; null where the hash is not kept.
template <class Value>
std::pair<Value*, bool> keep_smallest(std::map<uint64_t, Value>& values, uint64_t hash) {
  if (values.size() == kMostHashes && hash > values.rbegin()->first) return {nullptr, false};
  const auto [found, is_new] = values.try_emplace(hash);
  Value* const value = &found->second;
  if (values.size() > kMostHashes) values.erase(std::prev(values.end()));
  return {value, is_new};
}

struct Overlap {
  int64_t documents = 0, of_documents = 0;  // found, of those that were looked for
  int64_t bytes = 0, of_bytes = 0;
};

class OverlapFinder {
 public:
  struct Entry {
    int64_t documents = 0;
    int64_t bytes = 0;
    bool is_found = false;
  };

  // Adds an evaluation document of `bytes` bytes of text. All of them must come before the first
  // training document.
  void add_eval(uint64_t hash, uint64_t bytes);
  void add_train(uint64_t hash);  // notes a training document
  Overlap result() const;

  const std::map<uint64_t, Entry>& entries() const { return entries_; }  // by hash
  void restore(std::map<uint64_t, Entry> entries) { entries_ = std::move(entries); }

 private:
  std::map<uint64_t, Entry> entries_;
};

// Finds which entries of data.train have documents in common, by the hashes of documents
// (text_hash(), or the hash of the ids), while the text is scanned. The result is exact up to 65536
// different documents; of more, those with the smallest hashes are compared, which are a random
// sample. Empty documents do not count.
class CommonDocuments {
 public:
  // Adds a document of `size` bytes or tokens. Sources are numbers from 0 on.
  void add(int32_t source, uint64_t hash, uint64_t size);
  // Returns, for each source below `num_sources`, the lowest source of its group. Sources are of
  // one group if they have a document in common, or if a third source has documents in common with
  // both.
  std::vector<int32_t> groups(size_t num_sources) const;

  // These return, by hash, a source that has the document; and, by source, another source of its
  // group that is lower, or itself.
  const std::map<uint64_t, int32_t>& sources_of_documents() const { return source_of_document_; }
  const std::vector<int32_t>& lower() const { return lower_; }
  // Throws Error(kData) where the two do not belong together.
  void restore(std::map<uint64_t, int32_t> sources_of_documents, std::vector<int32_t> lower);

 private:
  int32_t lowest(int32_t source) const;

  std::map<uint64_t, int32_t> source_of_document_;
  std::vector<int32_t> lower_;
};

}  // namespace lmtrain
