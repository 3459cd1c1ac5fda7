// A table in the cache: the files whose documents are in the train shard, each with the first of
// them. It is read only to name files in events, so it may be missing.
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

// `files` in ascending order of documents. Bytes of a path that are not UTF-8 become U+FFFD.
void write_document_files(const std::filesystem::path& table,
                          const std::vector<DocumentFile>& files);
// The paths of the files that these documents of the train shard are from, in the order of the
// documents, each once. Error(kData) or Error(kIo) when the table is missing or damaged.
std::vector<std::string> files_of_documents(const std::filesystem::path& table,
                                            const std::set<int64_t>& documents);

}  // namespace lmtrain
