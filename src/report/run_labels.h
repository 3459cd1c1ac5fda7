// Short names by which the runs of a report can be told apart.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace lmtrain {

// Returns for each folder the last component of its path; where several are equal, these have as
// many components more as tell them apart: "a/run" and "b/run". Bytes that are no UTF-8 become
// U+FFFD. Requires absolute paths that differ.
std::vector<std::string> run_labels(const std::vector<std::filesystem::path>& folders);

}  // namespace lmtrain
