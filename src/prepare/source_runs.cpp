#include "prepare/source_runs.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/file.h"
#include "base/text.h"
#include "base/utf8.h"
#include "formats/strict_json.h"

namespace lmtrain {
namespace {

using Json = nlohmann::json;

// A path of 200 bytes for each of five million files.
constexpr uint64_t kLargestTable = uint64_t{1} << 30;

}  // namespace

void write_document_files(const std::filesystem::path& table,
                          const std::vector<DocumentFile>& files) {
  Json rows = Json::array();
  for (const DocumentFile& file : files)
    rows.push_back({file.first_document, replacing_malformed(file.path.native())});
  write_file_atomic(table, checked_json_text({{"files", std::move(rows)}}, /*indent=*/-1));
}

std::vector<std::string> files_of_documents(const std::filesystem::path& table,
                                            const std::set<int64_t>& documents) {
  const Json fields = read_checked_json(table, kLargestTable);
  std::vector<std::string> named;
  try {
    const Json& rows = fields.at("files");
    auto row = rows.begin();
    for (const int64_t document : documents) {
      const auto after = std::partition_point(row, rows.end(), [&](const Json& other) {
        return integer_in<int64_t>(other.at(0)) <= document;
      });
      if (after == rows.begin()) continue;
      row = std::prev(after);
      std::string path = row->at(1).get<std::string>();
      if (named.empty() || named.back() != path) named.push_back(std::move(path));
    }
  } catch (const Json::exception& error) {
    throw Error(ErrorKind::kData, str(shown(table), ": ", error.what()));
  }
  return named;
}

void FileTally::begin_document(size_t file, int64_t next) {
  first_.resize(std::max(first_.size(), file + 1), next);
}

// visit(file, first document) for those that have documents.
template <class Visit>
void FileTally::for_each_file(int64_t num_documents, const Visit& visit) const {
  for (size_t file = 0; file < first_.size(); ++file) {
    const int64_t end = file + 1 < first_.size() ? first_[file + 1] : num_documents;
    if (first_[file] < end) visit(file, first_[file]);
  }
}

std::vector<SourceRun> FileTally::runs(const std::vector<SourceFile>& files,
                                       int64_t num_documents) const {
  std::vector<SourceRun> runs;
  for_each_file(num_documents, [&](size_t file, int64_t first) {
    const int32_t source = files[file].source;
    if (runs.empty() || runs.back().source != source) runs.push_back({first, source});
  });
  return runs;
}

std::vector<DocumentFile> FileTally::files(const std::vector<SourceFile>& files,
                                           int64_t num_documents) const {
  std::vector<DocumentFile> named;
  for_each_file(num_documents, [&](size_t file, int64_t first) {
    named.push_back({first, files[file].path});
  });
  return named;
}

}  // namespace lmtrain
