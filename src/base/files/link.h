// Symbolic links, which the questions of examine.h follow.
#pragma once

#include <filesystem>

namespace lmtrain {

// Whether a symbolic link lies at the path, whatever it leads to. Error(kIo) where the file system
// refuses to say.
bool is_link(const std::filesystem::path& path);

}  // namespace lmtrain
