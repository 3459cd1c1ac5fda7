#include "corpus/source_runs.h"

namespace lmtrain {

void SourceTally::add(int32_t source, uint64_t hash) {
  if (runs_.empty() || runs_.back().source != source) runs_.push_back({source});
  Run& run = runs_.back();
  ++run.documents;
  if (hash < run.smallest_hash) {
    run.smallest_hash = hash;
    run.with_smallest_hash = 0;
  }
  if (hash == run.smallest_hash) ++run.with_smallest_hash;
}

std::vector<SourceRun> SourceTally::runs(const Split& split) const {
  std::vector<SourceRun> runs;
  int64_t documents = 0;
  for (const Run& run : runs_) {
    const int64_t held_out = split.is_eval(run.smallest_hash) ? run.with_smallest_hash : 0;
    if (run.documents == held_out) continue;
    if (runs.empty() || runs.back().source != run.source) runs.push_back({documents, run.source});
    documents += run.documents - held_out;
  }
  return runs;
}

}  // namespace lmtrain
