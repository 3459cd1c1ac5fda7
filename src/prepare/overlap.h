// Finds how much of the evaluation text is in the training text too, by the hashes of documents
// (text_hash(), or the hash of the ids), while the text is scanned. The result is exact for up to
// 65536 different evaluation documents. Of more it looks for a random sample: the documents with
// the smallest hashes. Empty documents do not count.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <utility>
#include <vector>

namespace lmtrain {

// The documents with the smallest hashes are a random sample that depends only on their text. This
// is the size of the sample.
inline constexpr size_t kMostHashes = size_t{1} << 16;

// Adds `hash` to `values`, which keeps only the kMostHashes smallest. Returns the value of `hash`,
// and whether it is new; null where `hash` is not kept.
template <class Value>
std::pair<Value*, bool> keep_smallest(std::map<uint64_t, Value>& values, uint64_t hash) {
  if (values.size() == kMostHashes && hash > values.rbegin()->first) return {nullptr, false};
  const auto [found, is_new] = values.try_emplace(hash);
  Value* const value = &found->second;
  if (values.size() > kMostHashes) values.erase(std::prev(values.end()));
  return {value, is_new};
}

struct Overlap {
  int64_t documents = 0, of_documents = 0;  // found in the training text, of how many
  int64_t bytes = 0, of_bytes = 0;
};

class OverlapFinder {
 public:
  struct Entry {
    int64_t documents = 0;  // with this hash
    int64_t bytes = 0;      // of their text
    bool is_found = false;
  };

  // Adds an evaluation document of `bytes` bytes of text. Add all of these before the first
  // add_train().
  void add_eval(uint64_t hash, uint64_t bytes);
  void add_train(uint64_t hash);  // notes a training document
  Overlap result() const;

  const std::map<uint64_t, Entry>& entries() const { return entries_; }  // by hash
  void load(std::map<uint64_t, Entry> entries) { entries_ = std::move(entries); }

 private:
  std::map<uint64_t, Entry> entries_;
};

// Finds which entries of data.train have documents in common, in the same way: exact for up to
// 65536 different documents, of more a random sample. Empty documents do not count.
class CommonDocuments {
 public:
  // Adds a document of `size` bytes or tokens. Sources are numbers from 0 on.
  void add(int32_t source, uint64_t hash, uint64_t size);
  // Returns, for each source below `num_sources`, the lowest source of its group. Sources are in
  // one group if they have a document in common, or if other sources of the group link them.
  std::vector<int32_t> groups(size_t num_sources) const;

  // State for load(): by hash, a source that has the document; and by source, a lower source of
  // its group, or itself.
  const std::map<uint64_t, int32_t>& sources_of_documents() const { return source_of_document_; }
  const std::vector<int32_t>& lower() const { return lower_; }
  // Throws Error(kData) where the two contradict each other.
  void load(std::map<uint64_t, int32_t> sources_of_documents, std::vector<int32_t> lower);

 private:
  int32_t lowest(int32_t source) const;

  std::map<uint64_t, int32_t> source_of_document_;
  std::vector<int32_t> lower_;
};

}  // namespace lmtrain
