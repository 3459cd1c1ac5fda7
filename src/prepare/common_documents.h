// Finds which entries of data.train have documents in common, by the hashes of documents
// (text_hash(), or the hash of the ids), while the text is scanned. The result is exact up to 65536
// different documents; of more, those with the smallest hashes are compared, which are a random
// sample. Empty documents do not count.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

namespace lmtrain {

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
