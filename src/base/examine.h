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

// All but is_link() follow links. These paths count as missing too: a link that leads to nothing or
// back to itself, a path below a file, a name that is too long.
FileInfo examine(const std::filesystem::path& path);
bool is_there(const std::filesystem::path& path);
bool is_file(const std::filesystem::path& path);  // a regular one
bool is_folder(const std::filesystem::path& path);
// Throws Error(kData) that names the path where nothing is there.
void require_there(const std::filesystem::path& path);
// Returns whether the path itself is a symbolic link, even one that leads to nothing. Returns false
// where nothing is at the path. Error(kIo) here: a name that is too long, and links above the path
// that lead back to themselves.
bool is_link(const std::filesystem::path& path);
// Returns the kind for messages: "missing", "a file", "a folder", "a pipe", "a socket" or "a
// device".
std::string file_kind_name(const std::filesystem::path& path);

// Returns the names in a folder in byte order, without "." and "..". Throws Error(kIo) for a
// missing folder too.
std::vector<std::string> list_folder(const std::filesystem::path& folder);
// Does the same, but returns no names for a missing folder. Still Error(kIo): a file at the path or
// above it, links that lead back to themselves, a name that is too long.
std::vector<std::string> list_folder_if_there(const std::filesystem::path& folder);

// Returns why this process cannot create files in `folder`, in the system's words; empty if it can.
std::string why_not_writable(const std::filesystem::path& folder);

// Returns the path with `suffix` at its end, such as ".tmp". Does not look at the file system.
std::filesystem::path with_suffix(std::filesystem::path path, const char* suffix);
// Returns `path` without a slash at its end: "runs/a" for "runs/a/". "/" stays. Does not look at
// the file system.
std::filesystem::path without_final_slash(const std::filesystem::path& path);

// Returns `path` as an absolute path without "." and "..". A slash at the end stays. Links keep
// their names, except a link before a "..": its target replaces it, as the system resolves it.
// Nothing need be at the path. An empty path throws std::filesystem::filesystem_error.
std::filesystem::path absolute_path(const std::filesystem::path& path);

}  // namespace lmtrain
