// Paths as people type them: ${VAR}, and the wildcards * ? [a-z] [!a-z] and ** (any number of
// folders).
//
// A wildcard never matches a leading dot unless the pattern spells it. Links to files and folders
// are followed; a folder reachable by two ways is entered once, so that loops end.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace lmtrain {

// Replaces each ${NAME} by the environment variable; an unset one is Error(kUsage), `prefix` put
// before its message.
std::string expand_variables(std::string_view path, std::string_view prefix);

bool has_wildcard(std::string_view pattern);

// Does the name of one file or folder match one component of a pattern?
bool matches_component(std::string_view pattern, std::string_view name);

// The regular files that `pattern` names, unsorted, each once: the file itself, all files below a
// folder (hidden ones left out), or the matches of a glob. A path that exists is taken literally
// even if it has wildcard characters in it. Empty when there is none. Links in folders that lead to
// nothing are left out with a warning. Error(kIo) naming a folder or file that cannot be looked at;
// Error(kUsage) for /proc and /sys.
std::vector<std::filesystem::path> find_files(const std::string& pattern);

}  // namespace lmtrain
