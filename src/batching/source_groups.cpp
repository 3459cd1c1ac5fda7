#include "batching/source_groups.h"

#include <algorithm>

#include "base/error.h"
#include "base/text.h"

namespace lmtrain {
namespace {

int64_t targets_of(const TokenShard& shard, int64_t first, int64_t end) {
  int64_t targets = 0;
  for (int64_t document = first; document < end; ++document) {
    targets += std::max<int64_t>(0, shard.document_size(document) - 1);
  }
  return targets;
}

}  // namespace

SourceGroups group_sources(const TokenShard& shard, const std::vector<SourceRun>& runs,
                           const std::vector<DataSourceConfig>& sources) {
  SourceGroups result;
  for (size_t i = 0; i < std::max<size_t>(1, sources.size()); ++i) {
    const double weight = sources.empty() ? 1 : sources[i].weight;
    result.sources.push_back({static_cast<int32_t>(i), weight, 0, 0, 0});
    const auto same =
        std::find_if(result.groups.begin(), result.groups.end(),
                     [&](const SourceGroup& group) { return group.weight == weight; });
    result.group_of_source.push_back(static_cast<size_t>(same - result.groups.begin()));
    if (same == result.groups.end()) result.groups.push_back({weight, {}});
  }

  const std::vector<SourceRun> all = {{0, 0}};
  const std::vector<SourceRun>& used = runs.empty() ? all : runs;
  if (used.front().first_document != 0) {
    throw Error(ErrorKind::kInternal, "the first documents of the corpus have no source");
  }
  for (size_t i = 0; i < used.size(); ++i) {
    const int64_t first = used[i].first_document;
    const int64_t end = i + 1 < used.size() ? used[i + 1].first_document : shard.num_documents();
    const auto source = static_cast<size_t>(used[i].source);
    if (first > end || source >= result.sources.size()) {
      throw Error(ErrorKind::kInternal, str("documents ", first, " to ", end, " of source ",
                                            used[i].source, ": there is no such run"));
    }
    result.groups[result.group_of_source[source]].documents.add(first, end);
    result.sources[source].documents += end - first;
    result.sources[source].targets += targets_of(shard, first, end);
  }
  return result;
}

}  // namespace lmtrain
