// The paths that descriptors were opened with, for those files that are watched. Any thread.
#pragma once

#include <dlfcn.h>

#include <string>

namespace lmtrain::faults {

// The function of this name that the library stands in front of.
template <class Function>
Function next(const char* name) {
  return reinterpret_cast<Function>(::dlsym(RTLD_NEXT, name));
}

std::string absolute(const std::string& path);
// Empty where the folder is a descriptor of a folder that is not watched.
std::string path_at(int folder, const char* name);
// Empty for a file that is not watched.
std::string path_of(int fd);

// Returns the descriptor.
int note_open(int fd, const std::string& path);
void note_closed(int fd);

}  // namespace lmtrain::faults
