// Folders as Hugging Face's `datasets` and its hub write them: which files of an entry of the
// config are documents, and which only describe a data set. A Dataset saved with save_to_disk is
// the Arrow files that its state.json lists; of a DatasetDict, and of files named by split, one
// split is taken; cards of the hub (README.md) are no documents.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "config/enums.h"
#include "corpus/sources/splits.h"

namespace lmtrain {

// `found`: the files below the folder `root`, or with `is_pattern` those that a pattern names,
// whose part without wildcards is `root`. `prefix` begins messages. Notes what it leaves out.
// Error(kUsage) when no split fits the role, Error(kConfig) for a data set that cannot be read from
// its files, Error(kData) for one that is damaged.
std::vector<std::filesystem::path> documents_of(const std::filesystem::path& root,
                                                std::vector<std::filesystem::path> found,
                                                bool is_pattern, DataFormat format, Role role,
                                                const std::string& prefix);

}  // namespace lmtrain
