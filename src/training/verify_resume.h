// Tests on a run that a resume is exact (`lmtrain resume RUN --verify N`). It trains N steps twice:
// straight on, and with a checkpoint in the middle, from which a new Trainer goes on. The
// checkpoints at the end must have the same bits.
//
// Both trainings work on copies, in a scratch folder beside the run or in TMPDIR, which is removed
// at the end. The run itself is only read, without its lock, so another process may train it
// meanwhile.
//
// If the guard rolls back, the check may report differences: the interrupted training may go back
// to the checkpoint in the middle, and its state says so.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "checkpoint/run_folder.h"
#include "config/config.h"
#include "distributed/processes.h"
#include "prepare/prepare.h"

namespace lmtrain {

struct ResumeCheck {
  int64_t from = 0;               // the step of the checkpoint where both begin; 0: the start
  int64_t steps = 0;              // the steps asked for, or fewer if the run ends earlier
  int64_t interrupted_after = 0;  // steps before the checkpoint in the middle
  std::vector<std::string> differences;  // the first difference of each part; empty: equal
  double seconds = 0;
};

// Returns a run's config, changed for the check: nothing depends on the clock or ends the run
// early, a save that fails is an error, and the run writes only what the check reads. Prepare the
// data with this config too.
Config config_of_check(Config config);

// Trains both ways from the newest valid checkpoint with two or more steps to come, or from the
// start. `config` is the result of config_of_check(), resolved. Of several processes only rank 0
// calls it. Throws the errors of training, and:
//   Error(kUsage)  the run has fewer than two steps
//   Error(kIo)     there is no room for three checkpoints
//   StopRequested  on a signal
//
// Tests set `after_interruption`, which is called with the folder of the checkpoint in the middle.
ResumeCheck verify_resume(
    const Config& config, const PreparedData& data, const RunFolder& run, int64_t steps,
    Processes& processes,
    const std::function<void(const std::filesystem::path&)>& after_interruption = nullptr);

}  // namespace lmtrain
