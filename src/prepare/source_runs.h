// Records which documents of the train shard come from which file, and so from which entry of
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

// A row of the table of document files, which lies in the cache: a file, and its first document in
// the train shard. The table is read only to name files in events, so it may be missing.
struct DocumentFile {
  int64_t first_document = 0;
  std::filesystem::path path;
};

// Writes `files`, which ascend by first document, to the file `table`. Bytes of a path that are not
// UTF-8 become U+FFFD. Throws Error(kIo).
void write_document_files(const std::filesystem::path& table,
                          const std::vector<DocumentFile>& files);
// Returns the paths of the files that hold these documents of the train shard, in the order of the
// documents, each path once. Throws Error(kIo) when the table is missing, Error(kData) when it is
// damaged.
std::vector<std::string> files_of_documents(const std::filesystem::path& table,
                                            const std::set<int64_t>& documents);

// Finds the first document of each file in the train shard. Files are numbered as in the corpus.
class FileTally {
 public:
  // Call it before document number `next` of the train shard, which is of file number `file`, is
  // added. Files and documents must ascend.
  void begin_document(size_t file, int64_t next);
  // runs() returns the runs of documents from one source. files() returns the files that have
  // documents. `files` is the list that the file numbers index, and `num_documents` the number of
  // documents of the train shard.
  std::vector<SourceRun> runs(const std::vector<SourceFile>& files, int64_t num_documents) const;
  std::vector<DocumentFile> files(const std::vector<SourceFile>& files,
                                  int64_t num_documents) const;

  // Returns the first document of each file so far. A file without documents has the first document
  // of the next file that has any.
  const std::vector<int64_t>& first_documents() const { return first_; }
  void load(std::vector<int64_t> first_documents) { first_ = std::move(first_documents); }

 private:
  template <class Visit>
  void for_each_file(int64_t num_documents, const Visit& visit) const;

  std::vector<int64_t> first_;
};

}  // namespace lmtrain
