// The files of a corpus: files, folders and globs, in byte order of path; with the position of a
// document in its file (readers.h) this is the one order on which everything else rests.
// docs/data.md states it exactly.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "config/config.h"
#include "corpus/readers/source_file.h"
#include "corpus/sources/splits.h"

namespace lmtrain {

// The entries whose weights count.
inline constexpr const char* kTrainPointer = "/data/train";

// Expands ${VAR}; ~ is not special. A pattern that matches nothing, or a path that does not exist,
// is Error(kUsage) naming it and its JSON pointer in the list `pointer` (empty: typed on the
// command line). A file named by two sources is taken once, as the first one's; of
// data.train this is reported (source_claims.h). Hidden files are taken only if the pattern spells
// the dot. Of folders and patterns that belong to a data set only the documents that fit the role
// are taken (dataset_folder.h), which depends on `format`.
std::vector<SourceFile> list_source_files(const std::vector<DataSourceConfig>& sources,
                                          const std::string& pointer = kTrainPointer,
                                          DataFormat format = DataFormat::kAuto,
                                          Role role = Role::kTrain);

}  // namespace lmtrain
