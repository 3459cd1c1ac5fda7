// Sources of equal weight make one group: their documents are batched together, in one order, so
// that a corpus in many paths is one corpus. Documents of different groups never share a row.
#pragma once

#include <cstdint>
#include <vector>

#include "batching/document_list.h"
#include "batching/plan_summary.h"
#include "config/config.h"
#include "formats/source_run.h"
#include "formats/token_shard.h"

namespace lmtrain {

struct SourceGroup {
  double weight = 1;
  DocumentList documents;
};

struct SourceGroups {
  std::vector<SourceGroup> groups;      // in the order of data.train
  std::vector<SourceSummary> sources;   // by index in data.train; epochs are not known here
  std::vector<size_t> group_of_source;  // beside sources
};

// `runs` as the corpus was prepared; none: all documents are of source 0. Weights come from the
// config; an empty list counts as one source of weight 1. Error(kInternal) for runs that do not fit
// the shard or the config.
SourceGroups group_sources(const TokenShard& shard, const std::vector<SourceRun>& runs,
                           const std::vector<DataSourceConfig>& sources);

}  // namespace lmtrain
