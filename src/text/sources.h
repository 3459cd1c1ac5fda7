// Lists the files of a corpus, named by files, folders and globs, in byte order of path. With the
// position of a document in its file (readers.h) this is the one order on which everything else
// rests. docs/data.md states it exactly.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "config/config.h"
#include "text/source_file.h"
#include "text/splits.h"

namespace lmtrain {

// This is the JSON pointer of data.train, the only list whose weights count.
inline constexpr const char* kTrainPointer = "/data/train";

// Returns the files of all entries. Neither ${VAR} nor ~ is special. `pointer` is the JSON pointer
// of the list, or empty for paths typed on the command line. A file that two entries name is taken
// once, as the first one's; for data.train, and between named sets, a warning says so. Hidden files
// are taken only if the pattern spells the dot. In folders and patterns that belong to a data set
// only the documents that fit `role` are taken (dataset_folder.h), which depends on `format`.
// Throws Error(kUsage) naming a pattern that matches nothing or a path that does not exist,
// Error(kConfig) for an entry or a set whose files all belong to earlier ones, what documents_of()
// throws, and Error(kIo).
std::vector<SourceFile> list_source_files(const std::vector<DataSourceConfig>& sources,
                                          const std::string& pointer = kTrainPointer,
                                          DataFormat format = DataFormat::kAuto,
                                          Role role = Role::kTrain);

}  // namespace lmtrain
