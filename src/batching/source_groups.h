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
  std::vector<SourceSummary> sources;   // by index in data.train; epochs are 0
  std::vector<size_t> group_of_source;  // group, by index in `sources`
};

// Groups the documents of the shard. `runs` says which source each comes from; empty: all come from
// source 0. `sources` is data.train, for the weights; empty: one source of weight 1. Throws
// Error(kInternal) for runs that do not fit the shard or the config.
SourceGroups group_sources(const TokenShard& shard, const std::vector<SourceRun>& runs,
                           const std::vector<DataSourceConfig>& sources);

}  // namespace lmtrain
