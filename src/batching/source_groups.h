// Sources (entries of data.train) of equal weight make one group, whose documents are batched
// together: a corpus in many paths is one corpus. Documents of two groups never share a row.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <vector>

#include "batching/plan_summary.h"
#include "config/config.h"
#include "formats/token_shard.h"

namespace lmtrain {

// A DocumentList holds the documents of one group of sources, ascending. It takes 16 bytes for each
// run of consecutive documents.
class DocumentList {
 public:
  // Adds documents [first, end) of the shard, which come after all that are in the list.
  void add(int64_t first, int64_t end) {
    if (first == end) return;
    const bool adjacent =
        !runs_.empty() && runs_.back().first + size_ - runs_.back().index == first;
    if (!adjacent) runs_.push_back({first, size_});
    size_ += end - first;
  }

  int64_t size() const { return size_; }

  // Returns the document at an index in [0, size()).
  int64_t operator[](int64_t index) const {
    const auto after =
        std::upper_bound(runs_.begin(), runs_.end(), index,
                         [](int64_t wanted, const Run& run) { return wanted < run.index; });
    const Run& run = *std::prev(after);
    return run.first + index - run.index;
  }

  // Calls visit(document) for each document, ascending.
  template <class Visit>
  void for_each(const Visit& visit) const {
    for (size_t i = 0; i < runs_.size(); ++i) {
      const int64_t end = i + 1 < runs_.size() ? runs_[i + 1].index : size_;
      for (int64_t index = runs_[i].index; index < end; ++index) {
        visit(runs_[i].first + index - runs_[i].index);
      }
    }
  }

 private:
  struct Run {
    int64_t first;  // document
    int64_t index;  // its index in this list
  };
  std::vector<Run> runs_;
  int64_t size_ = 0;
};

struct SourceGroup {
  double weight = 1;
  DocumentList documents;
};

struct SourceGroups {
  std::vector<SourceGroup> groups;      // in the order of data.train
  std::vector<SourceSummary> sources;   // by index in data.train; epochs are 0
  std::vector<size_t> group_of_source;  // group, by index in `sources`
};

// Groups the documents of the shard. `runs` says which source each document comes from; empty: all
// come from source 0. `sources` is data.train; empty: one source of weight 1. Throws
// Error(kInternal) for runs that do not fit the shard or `sources`.
SourceGroups group_sources(const TokenShard& shard, const std::vector<SourceRun>& runs,
                           const std::vector<DataSourceConfig>& sources);

}  // namespace lmtrain
