// The functions of examine.h follow symbolic links; this one does not.
#pragma once

#include <filesystem>

namespace lmtrain {

// Returns whether a symbolic link lies at the path, whatever it leads to; false where nothing does.
// Throws Error(kIo) where the file system refuses to say.
bool is_link(const std::filesystem::path& path);

}  // namespace lmtrain
