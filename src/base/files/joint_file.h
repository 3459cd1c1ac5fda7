// Finds out whether several processes, maybe on several machines, can write one file together: each
// sees it, and keeps what the others write beside its own. A network file system may not: its
// machines write whole pages where a process wrote a part of one.
//
// One process calls create_joint_file(), then all call write_in_joint_file(), and when all have
// returned the first one calls holds_writes(). Their parts alternate every thousand bytes, so
// that each page has parts of several processes.
#pragma once

#include <filesystem>
#include <vector>

namespace lmtrain {

// Creates the file, with room for the parts of `count` processes. Throws Error(kIo).
void create_joint_file(const std::filesystem::path& path, int count);
// Writes and syncs the parts of the process `rank`. Returns false where the file is not there, or
// the system refuses.
bool write_in_joint_file(const std::filesystem::path& path, int rank, int count);
// Returns whether the file holds what these processes have written. Throws Error(kIo).
bool holds_writes(const std::filesystem::path& path, const std::vector<int>& ranks, int count);

}  // namespace lmtrain
