// An Unpublished is a file or folder that is being written under a temporary name beside the path
// where it is to appear. publish() moves it there; without that it is removed with the object, and
// nothing appears. A process that is killed leaves the hidden file or folder behind: for a target
// named NAME it is ".NAME.tmp-PID", with "-1" and so on after it where that name was taken.
#pragma once

#include <filesystem>
#include <string_view>

#include "base/files/examine.h"

namespace lmtrain {

class Unpublished {
 public:
  // Tells what becomes of a file at the target.
  enum class Existing { kIsAnError, kIsReplaced };

  // Creates the folders above `target`, if they are missing. `kind` is what is to appear: kFile or
  // kFolder. An empty folder at `target`, or what a link there to one leads to, is taken for a
  // folder. Throws Error(kUsage) when anything else is there, unless it is a file that is to be
  // replaced; Error(kIo).
  Unpublished(const std::filesystem::path& target, FileKind kind,
              Existing existing = Existing::kIsAnError);
  ~Unpublished();
  Unpublished(const Unpublished&) = delete;
  Unpublished& operator=(const Unpublished&) = delete;

  // Nothing is at this path before it is created by the caller.
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

// Writes `bytes` to the file `target`, which is replaced where it is there, by way of an
// Unpublished: whatever else lies beside it stays.
void replace_file_of_user(const std::filesystem::path& target, std::string_view bytes);

}  // namespace lmtrain
