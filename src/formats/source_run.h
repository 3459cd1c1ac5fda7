// Which entry of data.train the documents of a shard are of: runs, ascending, the first of which
// begins at document 0.
#pragma once

#include <cstdint>

namespace lmtrain {

// From this document of a shard on, up to the next run, documents are of this entry of data.train.
struct SourceRun {
  int64_t first_document = 0;
  int32_t source = 0;
};

}  // namespace lmtrain
