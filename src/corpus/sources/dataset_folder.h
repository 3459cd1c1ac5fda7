// Hugging Face's `datasets` and its hub write folders in which some files are documents and others
// only describe the data set. A Dataset saved with save_to_disk consists of the Arrow files that
// its state.json lists. Where there are several splits (a DatasetDict, or files named by split) one
// is taken. The hub's cards (README.md) are no documents. Of the hub's cache one snapshot is taken.
// Unfinished downloads, locks and what tools keep for themselves are left out in any folder.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "config/enums.h"
#include "corpus/sources/splits.h"

namespace lmtrain {

// Returns those files of `found` that are documents of the split for `role`, in the order of
// `found`; none where all of them only describe the data set. `found` holds the files below the
// folder `root`; where `pattern` is not empty it holds those that match it, and `root` is the part
// of the pattern before its first wildcard. `format` is data.format: folders of save_to_disk are
// only looked for with "auto" and "arrow", and cards stay with "text", "lines" and "tokens".
// `prefix` begins the messages. Logs which files it leaves out. Throws Error(kUsage) when no split
// fits the role, Error(kConfig) for a data set that cannot be read from its files, Error(kData) for
// one that is damaged, and Error(kIo).
std::vector<std::filesystem::path> documents_of(const std::filesystem::path& root,
                                                std::vector<std::filesystem::path> found,
                                                const std::string& pattern, DataFormat format,
                                                Role role, const std::string& prefix);

// Returns whether a file's name ends as those of unfinished downloads, of locks and of what tools
// keep do, which documents_of() leaves out.
bool has_tool_ending(const std::filesystem::path& file);

}  // namespace lmtrain
