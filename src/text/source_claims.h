// Reports files that more than one entry of data.train, or more than one named set of data.eval,
// names. Each belongs to the first of them, so an entry may end with fewer files than it names, or
// with none.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "config/config.h"

namespace lmtrain {

// Counts the files that one entry of the list names.
struct SourceClaims {
  size_t files = 0;                  // files that the entry names
  std::map<size_t, size_t> claimed;  // how many of them belong to an earlier entry, by its index
};

// Returns the JSON pointer of an entry: "/data/train/0", or, in a named set, "/data/eval/NAME/0".
std::string entry_pointer(const std::string& pointer, const std::vector<DataSourceConfig>& sources,
                          size_t index);

// Throws Error(kConfig) for an entry whose files all belong to earlier ones; an entry that names no
// file is no error. Logs a warning where files of an entry belong to an earlier one of a lower
// weight, and a note where that has a higher one. `claims` has one element per entry of `sources`;
// `pointer` is the JSON pointer of the list.
void report_claims(const std::vector<DataSourceConfig>& sources,
                   const std::vector<SourceClaims>& claims, const std::string& pointer);

// Does the same for named sets, whose weights count nothing: throws Error(kConfig) for a set
// without a file of its own, and logs a warning for each entry with files that belong to another
// set.
void report_set_claims(const std::vector<DataSourceConfig>& sources,
                       const std::vector<SourceClaims>& claims, const std::string& pointer);

}  // namespace lmtrain
