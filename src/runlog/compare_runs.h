// Finds where two runs differ that should be equal to the bit: weights and optimizer tensor by
// tensor, the state of training, and the lines of metrics.jsonl. Times are left out, since they
// depend on how fast the machine was.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "checkpoint/run_folder.h"

namespace lmtrain {

// A run whose newest checkpoint is of step `step`, and what it is called in texts for people.
struct ComparedRun {
  RunFolder folder;
  int64_t step = 0;
  std::string name;
};

// Returns the first difference of each part, in words: the tensor by its HF name with the element
// and both values, the field of the state, the field of a line of metrics. Lines of steps before
// `first_step` are not compared. Empty: the runs are equal. The checkpoints must be whole. Throws
// Error(kIo), Error(kData).
std::vector<std::string> run_differences(const ComparedRun& a, const ComparedRun& b,
                                         int64_t first_step);

}  // namespace lmtrain
