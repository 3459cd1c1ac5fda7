// The one way to make a path absolute.
#pragma once

#include <filesystem>

namespace lmtrain {

// Returns the absolute path of `path`, without "." and "..", which is one string for all ways to
// write it. Links stay in it by their names, except before a ".." that leads out of the folder to
// which a link leads: there it names the folder itself, as the system does. The path may be
// missing.
std::filesystem::path absolute_path(const std::filesystem::path& path);

}  // namespace lmtrain
