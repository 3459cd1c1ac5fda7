// Finds out whether several processes, maybe on several machines, can write one file together: all
// see the file, and no process overwrites what another has written. A network file system may fail:
// a machine writes a whole page where its process wrote a part of the page.
//
// The first process calls create_joint_file(). Then all call write_in_joint_file(). When all calls
// have returned, the first process calls holds_writes(). The parts of the processes alternate every
// thousand bytes, so each page has parts of several processes.
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
