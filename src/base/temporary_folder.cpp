#include "base/temporary_folder.h"

#include <system_error>

#include "base/error.h"
#include "base/examine.h"
#include "base/text.h"

namespace lmtrain {
namespace {

namespace fs = std::filesystem;

constexpr const char* kLockFile = ".lock";

}  // namespace

ScratchFolder::ScratchFolder(const std::vector<fs::path>& parents, const std::string& name,
                             uint64_t bytes) {
  std::string problems;
  for (const fs::path& parent : parents) {
    try {
      begin_at(parent / name, bytes);
      path_ = parent / name;
      return;
    } catch (const Error& error) {
      if (error.kind() == ErrorKind::kUsage) throw;
      problems += str(problems.empty() ? "" : "; ", error.what());
      std::error_code ignored;
      fs::remove_all(parent / name, ignored);
    }
  }
  throw Error(ErrorKind::kIo, str("no folder for temporary files: ", problems));
}

void ScratchFolder::begin_at(const fs::path& path, uint64_t bytes) {
  lmtrain::create_directories(path);
  if (!lock_.try_acquire(path / kLockFile)) {
    throw Error(ErrorKind::kUsage,
                str(shown(path), " is in use by another lmtrain; wait for it to end"));
  }
  for (const std::string& left : list_folder(path)) {
    if (left != kLockFile) remove_tree(path / left);
  }
  require_free_space(path, bytes, "temporary files");
}

ScratchFolder::~ScratchFolder() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

}  // namespace lmtrain
