// An Unpublished is a file or folder that is being written under a temporary name beside the path
// where it is to appear. publish() moves it there; without that it is removed with the object, and
// nothing appears. A process that is killed leaves the hidden file or folder behind: for a target
// named NAME it is ".NAME.tmp-PID", with "-1" and so on after it where that name was taken.
#pragma once

#include <filesystem>

#include "base/files/examine.h"

namespace lmtrain {

class Unpublished {
 public:
  // Creates the folders above `target`, if they are missing. `kind` is what is to appear: kFile or
  // kFolder. Throws Error(kUsage) when something is at `target`, which for a folder may be an empty
  // one; Error(kIo).
  Unpublished(const std::filesystem::path& target, FileKind kind);
  ~Unpublished();
  Unpublished(const Unpublished&) = delete;
  Unpublished& operator=(const Unpublished&) = delete;

  // Nothing is at this path before it is created by the caller.
  const std::filesystem::path& path() const { return path_; }
  // Renames path() to the target and syncs the folder above. The files must be synced. Throws
  // Error(kUsage) when something has appeared at the target meanwhile; Error(kIo).
  void publish();

 private:
  std::filesystem::path target_;
  FileKind kind_;
  std::filesystem::path path_;
};

}  // namespace lmtrain
