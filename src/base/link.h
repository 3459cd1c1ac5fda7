// The functions of examine.h follow symbolic links; this one does not.
#pragma once

#include <filesystem>

namespace lmtrain {

// Returns whether the path itself is a symbolic link, even one that leads to nothing; false where
// nothing is at the path. Throws Error(kIo) where the file system refuses to say.
bool is_link(const std::filesystem::path& path);

}  // namespace lmtrain
