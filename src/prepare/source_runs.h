// Notes which documents of the train shard come from which file, and so from which entry of
// data.train.
#pragma once

#include <cstdint>
#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "formats/token_shard.h"
#include "text/source_file.h"

namespace lmtrain {

// The table of document files lies in the cache and lists the files whose documents are in the
// train shard, each with its first document. It is read only to name files in events, so it may be
// missing.
struct DocumentFile {
  int64_t first_document = 0;
  std::filesystem::path path;
};

// Writes `files`, in ascending order of documents, to the file `table`. Bytes of a path that are
// not UTF-8 become U+FFFD. Throws Error(kIo).
void write_document_files(const std::filesystem::path& table,
                          const std::vector<DocumentFile>& files);
// Returns the paths of the files that these documents of the train shard, by number, are from: in
// the order of the documents, each path once. Throws Error(kData) or Error(kIo) when the table is
// missing or damaged.
std::vector<std::string> files_of_documents(const std::filesystem::path& table,
                                            const std::set<int64_t>& documents);

// Counts where the documents of each file begin in the train shard. Files are numbered in the order
// of the corpus.
class FileTally {
 public:
  // Call it before a document of file number `file` is added to the train shard as document number
  // `next`. Files and documents ascend.
  void begin_document(size_t file, int64_t next);
  // Return the runs of documents of one source, and the files that have documents with the first of
  // each. `files` is the list that the numbers index, and `num_documents` the size of the train
  // shard.
  std::vector<SourceRun> runs(const std::vector<SourceFile>& files, int64_t num_documents) const;
  std::vector<DocumentFile> files(const std::vector<SourceFile>& files,
                                  int64_t num_documents) const;

  // Returns the first document of each file so far. A file without documents has the first document
  // of the next file that has some.
  const std::vector<int64_t>& first_documents() const { return first_; }
  void restore(std::vector<int64_t> first_documents) { first_ = std::move(first_documents); }

 private:
  template <class Visit>
  void for_each_file(int64_t num_documents, const Visit& visit) const;

  std::vector<int64_t> first_;
};

}  // namespace lmtrain
