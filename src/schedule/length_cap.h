// A LengthCap gives the longest row allowed at batch k for the schedules linear, root and step
// (docs/batching.md). For the other schedules it is always max_length.
//
//   linear, root   min + (max - min)·(k/D)^(1/r), D: `duration`, r: 1 or `root_degree`
//   step           lengths[i] until boundaries[i], then max
//
// The cap is this value rounded down to max_length/2^j, a whole number of at least min_length. A
// value below all these numbers is rounded up to the least of them. So there are few shapes, and
// rows of max_length divide into rows of the cap. Durations are converted to batches once, by the
// constructor.
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

  // Requires 1 <= min_length <= max_length, and for step a boundary for each length. `run` must
  // count steps: its total is the number of batches, including those that the run will skip, and
  // its tokens_per_step is an average. Throws Error(kConfig) for boundaries that do not increase in
  // this run, and for durations of time.
  LengthCap(const LengthScheduleConfig& schedule, int64_t min_length, int64_t max_length,
            const RunClock& run);

  // Returns the longest row allowed in a batch, in positions. Requires batch >= 0.
  int64_t at(int64_t batch) const;
  const std::vector<Step>& steps() const { return steps_; }  // ascending, the first at batch 0

 private:
  void add(double first_batch, int64_t length);

  std::vector<Step> steps_;
};

}  // namespace lmtrain
