#include "runlog/line_file.h"

#include "base/error.h"
#include "base/examine.h"
#include "base/file.h"
#include "base/log.h"
#include "base/text.h"

namespace lmtrain {

LineFile::LineFile(std::filesystem::path path, bool patient, std::string kept)
    : path_(std::move(path)), patient_(patient), kept_(std::move(kept)) {}

void LineFile::append(const std::string& line) {
  const bool is_late = !kept_.empty();
  kept_ += line + "\n";
  try {
    append_file(path_, kept_, /*sync=*/false);
    kept_.clear();
  } catch (const Error& error) {
    if (!patient_ || !is_folder(path_.parent_path())) throw;
    if (!is_late)
      log_warning(str(error.what(), "; its lines are kept in memory until they can be written"));
  }
}

void LineFile::sync() {
  append_file(path_, kept_, /*sync=*/false);
  kept_.clear();  // they are in the file, also where it cannot be synced
  append_file(path_, "", /*sync=*/true);
}

}  // namespace lmtrain
