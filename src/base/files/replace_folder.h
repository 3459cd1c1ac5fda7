// Publishes a folder in the place of one that may be there already. A kill at any instant leaves
// one of the two whole, and no reader sees a mixture.
//
// The two are exchanged in one step (renameat2 with RENAME_EXCHANGE), the folder above is synced,
// and the old one is removed after that. Some file systems (NFS) cannot exchange. There the old one
// is moved aside first, as .replaced-NAME; a process that is killed before the new one is in its
// place leaves no folder of that name, and put_back_replaced() returns the old one to it.
#pragma once

#include <filesystem>

namespace lmtrain {

// Renames the folder `from`, whose files are synced, to `to` in the same folder. What was at `to`,
// a folder or a link, is removed; of a link only the link. Throws Error(kIo) when the system
// refuses; unless the new folder is in its place then, the old one is.
void replace_folder(const std::filesystem::path& from, const std::filesystem::path& to);

// Settles what a killed replace_folder() has left in `parent`: a .replaced-NAME goes back to NAME
// where nothing is there, and is removed where something is. A missing `parent` is fine. Throws
// Error(kIo). No other process may be replacing there.
void put_back_replaced(const std::filesystem::path& parent);

}  // namespace lmtrain
