#include "prepare/document_files.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/file.h"
#include "base/text.h"
#include "base/utf8.h"
#include "formats/checked_json.h"
#include "formats/json_number.h"

namespace lmtrain {
namespace {

using Json = nlohmann::json;

// A path of 200 bytes for each of five million files.
constexpr uint64_t kLargestTable = uint64_t{1} << 30;

}  // namespace

void write_document_files(const std::filesystem::path& table,
                          const std::vector<DocumentFile>& files) {
  Json rows = Json::array();
  for (const DocumentFile& file : files) {
    std::string path;
    append_replacing_malformed(path, file.path.native());
    rows.push_back({file.first_document, std::move(path)});
  }
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

}  // namespace lmtrain
