// The longest row allowed at batch k: schedules linear, root and step (docs/batching.md). The other
// schedules cap nothing.
//
//   linear, root   min + (max - min)·(k/D)^(1/r), D: `duration`, r: 1 or `root_degree`
//   step           lengths[i] until boundaries[i], then max
//
// rounded down to max_length/2^j, a whole number, at least min_length (the least of these where
// nothing fits): few shapes, and rows of max_length divide into rows of the cap. Durations are
// resolved once, to batches. Immutable.
#pragma once

#include <cstdint>
#include <vector>

#include "config/config.h"
#include "schedule/run_clock.h"

namespace lmtrain {

class LengthCap {
 public:
  struct Step {
    int64_t first_batch;
    int64_t length;
    bool operator==(const Step&) const = default;
  };

  // `run` counts its batches as steps, also those that are skipped; their tokens are an average.
  // Error(kConfig) for boundaries that do not increase in this run, and for durations of time.
  LengthCap(const LengthScheduleConfig& schedule, int64_t min_length, int64_t max_length,
            const RunClock& run);

  // The longest row of a batch, in positions. Requires batch >= 0.
  int64_t at(int64_t batch) const;
  const std::vector<Step>& steps() const { return steps_; }  // ascending, the first at batch 0

 private:
  void add(double first_batch, int64_t length);

  std::vector<Step> steps_;
};

}  // namespace lmtrain
