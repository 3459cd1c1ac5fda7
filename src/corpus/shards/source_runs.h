// Which documents of the train shard come from which file, and so from which entry of data.train.
#pragma once

#include <cstdint>
#include <vector>

#include "corpus/readers/source_file.h"
#include "corpus/shards/document_files.h"
#include "formats/source_run.h"

namespace lmtrain {

// Where the documents of each file begin in the train shard; counted in the order of the corpus.
class FileTally {
 public:
  // Call it before a document of file `file` is added to the shard, where it will have number
  // `next`.
  void begin_document(size_t file, int64_t next);
  // `num_documents` is the size of the train shard.
  std::vector<SourceRun> runs(const std::vector<SourceFile>& files, int64_t num_documents) const;
  std::vector<DocumentFile> files(const std::vector<SourceFile>& files,
                                  int64_t num_documents) const;

  // The first document of each file so far, or of one after it.
  const std::vector<int64_t>& first_documents() const { return first_; }
  void restore(std::vector<int64_t> first_documents) { first_ = std::move(first_documents); }

 private:
  template <class Visit>
  void for_each_file(int64_t num_documents, const Visit& visit) const;

  std::vector<int64_t> first_;
};

}  // namespace lmtrain
