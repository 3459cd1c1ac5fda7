// The files of src/report that are written into every page as they are; CMake makes
// page_files.cpp of them.
#pragma once

#include <string_view>

namespace lmtrain {

extern const std::string_view kPageCss;
extern const std::string_view kPageScript;  // page_*.js one after another

}  // namespace lmtrain
