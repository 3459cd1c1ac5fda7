// Files that more than one entry of data.train names. Each belongs to the first of them, so an
// entry may end with fewer files than it names, or with none.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "config/config.h"

namespace lmtrain {

// Of one entry.
struct SourceClaims {
  size_t files = 0;    // that it names
  size_t claimed = 0;  // of those: named by an entry before it
  size_t by = 0;       // the last of these entries
};

// Error(kConfig) for an entry without a file of its own; a warning where files of an entry have the
// lower weight of another, a note where they have a higher one. `claims` beside `sources`.
void report_claims(const std::vector<DataSourceConfig>& sources,
                   const std::vector<SourceClaims>& claims, const std::string& pointer);

}  // namespace lmtrain
