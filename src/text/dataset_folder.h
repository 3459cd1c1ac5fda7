// Chooses the documents in a folder that Hugging Face's `datasets` or its hub has written. Other
// files there only describe the data set. It takes the Arrow files that the state.json of
// save_to_disk lists, one of several splits (a DatasetDict, or files named by split), and one
// snapshot of the hub's cache. It leaves out the hub's cards (README.md), and in any folder
// unfinished downloads, locks, tools' own files, and the runs and caches of lmtrain.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "config/enums.h"
#include "text/splits.h"

namespace lmtrain {

// Returns the files of `found` that are documents of the split for `role`, in their order; none if
// all files only describe the data set. Logs which files it leaves out.
//
// Without a `pattern`, `found` holds the files below the folder `root`. With one it holds the files
// that match, and `root` is the pattern's part before its first wildcard. `format` is data.format:
// only "auto", "tokens" and "arrow" look for folders of save_to_disk, and only "auto", "tokens" and
// "mds" for an index.json of shards (sample_shard.h). "text" and "lines" keep cards outside of the
// hub's snapshots. `prefix` begins the messages. Throws Error(kIo), and:
//   Error(kUsage)   no split fits the role, or no snapshot can be chosen
//   Error(kConfig)  the data set cannot be read from its files
//   Error(kData)    the data set is damaged
std::vector<std::filesystem::path> documents_of(const std::filesystem::path& root,
                                                std::vector<std::filesystem::path> found,
                                                const std::string& pattern, DataFormat format,
                                                Role role, const std::string& prefix);

// Returns whether the name of a file ends like an unfinished download, a lock, or a file that a
// tool keeps for itself. documents_of() leaves such files out, unless the pattern ends like that
// too.
bool has_tool_ending(const std::filesystem::path& file);

}  // namespace lmtrain
