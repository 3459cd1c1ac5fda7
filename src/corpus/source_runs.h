// Which documents of the train shard come from which entry of data.train, counted while the text is
// scanned, before it is known which single document may be held out. Memory: one run of files of
// one source.
#pragma once

#include <cstdint>
#include <vector>

#include "corpus/corpus.h"
#include "corpus/prepare.h"

namespace lmtrain {

class SourceTally {
 public:
  struct Run {
    int32_t source = 0;
    int64_t documents = 0;  // not below the split's limit
    // Of those; they are held out if no document of the corpus is below the limit.
    uint64_t smallest_hash = UINT64_MAX;
    int64_t with_smallest_hash = 0;
  };

  // A document that is not below the split's limit, in the order of the corpus.
  void add(int32_t source, uint64_t hash);
  std::vector<SourceRun> runs(const Split& split) const;

  const std::vector<Run>& tally() const { return runs_; }
  void restore(std::vector<Run> runs) { runs_ = std::move(runs); }

 private:
  std::vector<Run> runs_;
};

}  // namespace lmtrain
