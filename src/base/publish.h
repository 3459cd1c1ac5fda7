// Files and folders that appear at their place whole: a kill at any instant leaves what was there
// or what is new, and no reader sees a mixture.
//
// replace_folder() puts a folder in the place of another, which may be missing. Where the file
// system cannot exchange two folders in one step (NFS), a process that is killed meanwhile may
// leave the old folder as .replaced-NAME and no folder NAME; put_back_replaced() moves it back.
#pragma once

#include <filesystem>
#include <string_view>

#include "base/examine.h"

namespace lmtrain {

// Renames the folder `from`, whose files are synced, to `to` in the same parent. A folder or link
// that was at `to` is removed; the target of a link stays. Throws Error(kIo) when the system
// refuses. Then `to` is what it was, or the new folder, or missing until put_back_replaced().
void replace_folder(const std::filesystem::path& from, const std::filesystem::path& to);

// Settles what a killed replace_folder() has left in `parent`: a .replaced-NAME is moved back to
// NAME where nothing is there, else removed. A missing `parent` is fine. Throws Error(kIo). No
// other process may be replacing there.
void put_back_replaced(const std::filesystem::path& parent);

// An Unpublished is a file or folder that is being written under a temporary name beside its
// target. publish() moves it to the target; without publish() the destructor removes it. A killed
// process leaves a hidden file or folder behind: ".NAME.tmp-PID" for a target NAME, or with "-1"
// and so on after it where that name was taken.
class Unpublished {
 public:
  // Says what becomes of a file at the target.
  enum class Existing { kIsAnError, kIsReplaced };

  // Creates the folders above `target`, if they are missing. `kind` is what is to appear: kFile or
  // kFolder. A folder may replace an empty folder; a link to that folder is followed. With
  // kIsReplaced a file may replace a file. Throws Error(kUsage) when anything else is at the
  // target, and Error(kIo).
  Unpublished(const std::filesystem::path& target, FileKind kind,
              Existing existing = Existing::kIsAnError);
  ~Unpublished();
  Unpublished(const Unpublished&) = delete;
  Unpublished& operator=(const Unpublished&) = delete;

  // The caller creates the file or folder at this path; nothing is there before.
  const std::filesystem::path& path() const { return path_; }
  // Renames path() to the target and syncs the folder above. The caller has synced the files.
  // Throws like the constructor when something has appeared at the target meanwhile.
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
