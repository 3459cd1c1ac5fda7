// The table of document files lies in the cache and lists the files whose documents are in the
// train shard, each with its first document. It is read only to name files in events, so it may be
// missing.
#pragma once

#include <cstdint>
#include <filesystem>
#include <set>
#include <string>
#include <vector>

namespace lmtrain {

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

}  // namespace lmtrain
