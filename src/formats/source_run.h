// The documents of a shard come from the entries of data.train. A list of SourceRuns, ascending by
// document, says which entry each comes from; the first begins at document 0.
#pragma once

#include <cstdint>

namespace lmtrain {

// The documents from first_document on come from data.train[source], up to the first_document of
// the next SourceRun.
struct SourceRun {
  int64_t first_document = 0;
  int32_t source = 0;
};

}  // namespace lmtrain
