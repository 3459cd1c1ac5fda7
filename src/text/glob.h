// Expands paths as people type them, with the wildcards * ? [a-z] [!a-z] [^a-z] and ** (any number
// of folders).
//
// A wildcard never matches a leading dot; the pattern must spell the dot. Links to files and
// folders are followed; a folder reachable by two ways is entered once, so that loops end.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace lmtrain {

bool has_wildcard(std::string_view pattern);

// Returns whether the name of one file or folder matches one component of a pattern.
bool matches_component(std::string_view pattern, std::string_view name);

// Returns the regular files that `pattern` names, each path once, in no particular order. They are
// the file itself, all files below a folder but hidden ones, or the matches of a glob, which may be
// none. Paths are relative for a relative pattern. A path that exists is taken literally even if it
// has wildcard characters. Links in folders that lead to nothing are left out with a warning.
// Throws Error(kIo) naming a folder that cannot be listed or a file that cannot be examined, and
// Error(kUsage) for /proc and /sys.
std::vector<std::filesystem::path> find_files(const std::string& pattern);

}  // namespace lmtrain
