// Finds how much of the evaluation text is in the training text too, by the hashes of documents
// (text_hash(), or the hash of the ids) while the text is scanned. The result is exact up to 65536
// different evaluation documents; of more, those with the smallest hashes are looked for, which are
// a random sample. Empty documents do not count.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>

namespace lmtrain {

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

}  // namespace lmtrain
