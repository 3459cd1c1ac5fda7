// The folder of the tests' data: the sources this program was built from or, where they lie
// elsewhere now, what the variable LMTRAIN_SOURCE_DIR says.
#pragma once

#include <cstdlib>
#include <filesystem>

namespace lmtrain::testing {

inline std::filesystem::path source_dir() {
  const char* const given = std::getenv("LMTRAIN_SOURCE_DIR");
  return given != nullptr ? given : LMTRAIN_SOURCE_DIR;
}

}  // namespace lmtrain::testing
