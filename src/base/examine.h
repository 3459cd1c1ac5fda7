// These functions ask the file system what is at a path, and which names are in a folder.
//
// "Missing" is an answer, no error. When the file system refuses to say (an input/output error, a
// stale handle, no permission, too many open files), they throw Error(kIo) with the path. A caller
// that took a refusal for "nothing there" would begin a run anew, or train on a part of the data.
// Refusals that may pass are tried again first (Retry of open_file.h). Do not use std::filesystem
// for these questions: it answers "no" or throws.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace lmtrain {

enum class FileKind { kMissing, kFile, kFolder, kOther };

struct FileInfo {
  FileKind kind = FileKind::kMissing;
  uint64_t size = 0;     // bytes
  int64_t mtime_ns = 0;  // since 1970
  uint64_t device = 0, inode = 0;
};

// Links are followed, but by is_link(). These are missing too: a link that leads to nothing or back
// to itself, a path below a file, and a name that is too long.
FileInfo examine(const std::filesystem::path& path);
bool is_there(const std::filesystem::path& path);
bool is_file(const std::filesystem::path& path);  // a regular one
bool is_folder(const std::filesystem::path& path);
// Returns whether the path itself is a symbolic link, even one that leads to nothing; false where
// nothing is at the path. This alone does not follow links.
bool is_link(const std::filesystem::path& path);
// Returns the kind for messages: "missing", "a file", "a folder", "a pipe", "a socket" or "a
// device".
std::string file_kind_name(const std::filesystem::path& path);

// Returns the names in a folder in byte order, without "." and "..". Throws Error(kIo) for a
// missing folder too.
std::vector<std::string> list_folder(const std::filesystem::path& folder);
// Does the same, but returns no names for a folder that is missing. Throws Error(kIo) where a file
// is at the path or above it, where links lead back to themselves, and for a name that is too long.
std::vector<std::string> list_folder_if_there(const std::filesystem::path& folder);

// Returns the absolute path of `path` without "." and "..": one string for all ways to write the
// path. The names of links stay. The exception is a link before a "..": there the result names the
// folder to which the link leads, as the system does. Nothing need be at the path.
std::filesystem::path absolute_path(const std::filesystem::path& path);

}  // namespace lmtrain
