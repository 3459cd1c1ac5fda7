// Publishes a folder in the place of another, which may be missing. A kill at any instant leaves
// the old folder or the new one whole, and no reader sees a mixture.
//
// The two folders are exchanged in one step (renameat2 with RENAME_EXCHANGE). Then the folder above
// is synced, and the old folder removed. Some file systems (NFS) cannot exchange. There the old
// folder is first moved aside, to .replaced-NAME. A process that is killed before the new folder is
// in place leaves no folder NAME; put_back_replaced() moves the old folder back.
#pragma once

#include <filesystem>

namespace lmtrain {

// Renames the folder `from`, whose files are synced, to `to` in the same parent. A folder or link
// that was at `to` is removed; the target of a link stays. Throws Error(kIo) when the system
// refuses: at `to` is then the old folder, or the new one.
void replace_folder(const std::filesystem::path& from, const std::filesystem::path& to);

// Settles what a killed replace_folder() has left in `parent`: a .replaced-NAME is moved back to
// NAME where nothing is there, else removed. A missing `parent` is fine. Throws Error(kIo). No
// other process may be replacing there.
void put_back_replaced(const std::filesystem::path& parent);

}  // namespace lmtrain
