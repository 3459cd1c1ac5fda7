// Lists the files of a corpus, named by files, folders and globs, in byte order of absolute path.
// This order, and the position of a document in its file (readers.h), give the order of documents
// on which everything else rests. docs/data.md states it exactly.
#pragma once

#include <string>
#include <vector>

#include "config/config.h"
#include "text/source_file.h"
#include "text/splits.h"

namespace lmtrain {

// The JSON pointer of data.train, the only list whose weights count.
inline constexpr const char* kTrainPointer = "/data/train";

// Returns the JSON pointer of an entry: "/data/train/0", or, in a named set, "/data/eval/NAME/0".
std::string entry_pointer(const std::string& pointer, const std::vector<DataSourceConfig>& sources,
                          size_t index);

// Returns the files of all entries. Neither ${VAR} nor ~ is special. `pointer` is the JSON pointer
// of the list, or "" for paths typed on the command line. A file that two entries name belongs to
// the first. The log says so for entries of data.train of different weights, and for different
// named sets. Hidden files are taken only if the pattern spells the dot. In folders and patterns of
// a data set only the documents for `role` are taken (dataset_folder.h), which depends on `format`.
// Throws the errors of documents_of(), Error(kIo), and:
//   Error(kUsage)   a pattern matches no document, or a path does not exist
//   Error(kConfig)  all files of an entry of data.train, or of a named set, belong to earlier ones
//   Error(kData)    a file vanished while the files were listed
std::vector<SourceFile> list_source_files(const std::vector<DataSourceConfig>& sources,
                                          const std::string& pointer = kTrainPointer,
                                          DataFormat format = DataFormat::kAuto,
                                          Role role = Role::kTrain);

}  // namespace lmtrain
