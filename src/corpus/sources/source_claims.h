// Files that more than one entry of data.train names. Each belongs to the first of them, so an
// entry may end with fewer files than it names, or with none.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "config/config.h"

namespace lmtrain {

// The files that one entry of the list names.
struct SourceClaims {
  size_t files = 0;                  // all of its files
  std::map<size_t, size_t> claimed;  // an entry before it: how many of these files that one has
};

// Error(kConfig) for an entry without a file of its own; a warning where files of an entry have the
// lower weight of another, a note where they have a higher one. `claims` beside `sources`.
void report_claims(const std::vector<DataSourceConfig>& sources,
                   const std::vector<SourceClaims>& claims, const std::string& pointer);

}  // namespace lmtrain
