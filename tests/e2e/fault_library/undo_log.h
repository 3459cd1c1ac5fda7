// The undo log holds what a loss of power would take back. A file's content goes back to what it
// was when it was last synced. A name that was given, taken away or moved goes back unless its
// folder was synced since; a new folder that goes takes along what lies in it. A rename is one
// change, whole with a sync of the folder it leads to, as in file systems with a journal.
//
// Folders are held by descriptors (O_PATH), so that it does not matter where they were moved to.
// Whoever calls holds lock() of faults.h. Where no loss of power is asked for, nothing is kept.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace lmtrain::faults {

class UndoLog {
 public:
  // Forgets everything. `limbo` is an empty folder on the file system of the watched files.
  void begin(const std::filesystem::path& limbo);

  // ---- Before a change ----
  // The content of an open file, or of the one at a path, is about to change.
  void content_changes(int fd);
  void content_changes(int folder, const char* path);
  // Gives what is about to lose this name a place in limbo, and returns its name there: empty for
  // nothing, and for a folder that is not empty. An empty folder is moved there, a file stays.
  std::string keep(int folder, const char* path);

  // ---- After it ----
  void made(int folder, const char* path);
  void removed(int folder, const char* path, const std::string& kept);
  void renamed(int from_folder, const char* from, int to_folder, const char* to,
               const std::string& kept);
  // The call was refused after all.
  void give_back(int folder, const char* path, const std::string& kept);

  // A file or folder was synced.
  void synced(int fd);

  // Undoes what was not synced, newest first.
  void carry_out();

 private:
  using FileId = std::pair<dev_t, ino_t>;

  // A name in a folder.
  struct Name {
    FileId folder_id;
    int folder = -1;
    std::string name;

    std::filesystem::path path() const;
  };
  enum class What { kMade, kRemoved, kRenamed };
  struct Entry {
    What what = What::kMade;
    Name name;
    std::string kept;  // of what had this name before
    Name from;         // kRenamed
  };
  struct Content {
    int fd = -1;
    std::string bytes;
  };

  Name name_of(int folder, const char* path);
  void keep_content(int opened);
  void undo(const Entry& entry) const;

  std::filesystem::path limbo_;
  int num_kept_ = 0;
  std::map<FileId, int> folders_;
  std::map<FileId, Content> contents_;
  std::vector<Entry> entries_;
};

UndoLog& undo_log();

}  // namespace lmtrain::faults
