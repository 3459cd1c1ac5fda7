#include "corpus/readers/arrow_file.h"

#include "base/error.h"
#include "base/files/read_file.h"
#include "base/text.h"
#include "formats/quote.h"

namespace lmtrain {

namespace fs = std::filesystem;

std::shared_ptr<arrow::io::ReadableFile> open_arrow_file(const fs::path& path) {
  auto file = arrow::io::ReadableFile::Open(FileReader(path).release());
  if (!file.ok()) {
    throw Error(ErrorKind::kIo, str("cannot open ", path.string(), ": ", file.status().message()));
  }
  return *file;
}

void fail_arrow_file(const fs::path& path, const std::string& problem) {
  constexpr size_t kLongest = 500;
  // How Arrow marks what the operating system refused.
  if (problem.find("[errno ") != std::string::npos) {
    throw Error(ErrorKind::kIo,
                str("cannot read ", path.string(), ": ", problem.substr(0, kLongest),
                    "; wait until the file system answers"));
  }
  throw Error(ErrorKind::kData, str(path.string(), ": ", problem.substr(0, kLongest),
                                    "; the file is damaged, cut short, or of another format than "
                                    "its name or data.format says: get it anew"));
}

void fail_missing_column(const fs::path& path, const std::string& column,
                         const std::vector<std::string>& names) {
  constexpr size_t kMostNames = 50;
  std::vector<std::string> shown;
  for (size_t i = 0; i < std::min(names.size(), kMostNames); ++i) shown.push_back(quote(names[i]));
  if (names.size() > kMostNames) shown.emplace_back("...");
  const std::string nearest = nearest_word(column, names);
  throw Error(ErrorKind::kData,
              str(path.string(), ": no column ", quote(column), " (data.text_field); ",
                  nearest.empty() ? std::string() : str("did you mean ", quote(nearest), "? "),
                  "the file has: ", join(shown, ", ")));
}

void fail_ambiguous_column(const fs::path& path, const std::string& column) {
  throw Error(
      ErrorKind::kData,
      str(path.string(), ": has two columns ", quote(column),
          ", and data.text_field may mean either; write the file with one of them renamed"));
}

void fail_column_type(const fs::path& path, const std::string& column, const std::string& type) {
  throw Error(ErrorKind::kData, str(path.string(), ": column ", quote(column), " is ", type,
                                    " instead of text; name another in data.text_field"));
}

}  // namespace lmtrain
