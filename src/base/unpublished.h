// An Unpublished is a file or folder that is being written under a temporary name beside its
// target. publish() moves it to the target; without publish() the destructor removes it. A killed
// process leaves a hidden file or folder behind: ".NAME.tmp-PID" for a target NAME, or with "-1"
// and so on after it where that name was taken.
#pragma once

#include <filesystem>
#include <string_view>

#include "base/examine.h"

namespace lmtrain {

class Unpublished {
 public:
  // Says what becomes of a file at the target.
  enum class Existing { kIsAnError, kIsReplaced };

  // Creates the folders above `target`, if they are missing. `kind` is what is to appear: kFile or
  // kFolder. A folder may be published over an empty folder, also through a link. Throws
  // Error(kUsage) when anything else is at the target, unless it is a file that is to be replaced;
  // Error(kIo).
  Unpublished(const std::filesystem::path& target, FileKind kind,
              Existing existing = Existing::kIsAnError);
  ~Unpublished();
  Unpublished(const Unpublished&) = delete;
  Unpublished& operator=(const Unpublished&) = delete;

  // The caller creates the file or folder at this path; nothing is there before.
  const std::filesystem::path& path() const { return path_; }
  // Renames path() to the target and syncs the folder above. The files must be synced. Throws like
  // the constructor when something has appeared at the target meanwhile.
  void publish();

 private:
  std::filesystem::path target_;
  FileKind kind_;
  Existing existing_;
  std::filesystem::path path_;
};

// Writes `bytes` to the file `target` by way of an Unpublished. An existing file is replaced; other
// files beside it stay as they are.
void replace_file_of_user(const std::filesystem::path& target, std::string_view bytes);

}  // namespace lmtrain
