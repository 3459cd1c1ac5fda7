// Shows on a run itself that a resume is exact (`lmtrain resume RUN --verify N`): N steps trained
// straight on give the same bits as N steps with a checkpoint in the middle, from which a new
// trainer goes on.
//
// Everything is trained in copies, in a scratch folder beside the run or in TMPDIR, which is
// removed at the end. The run is only read, without its lock, so another process may train it
// meanwhile. Both ways go through files: checkpoints are what is compared.
//
// A guard that rolls back is not compared exactly: the interrupted way may go back to the
// checkpoint in the middle, and its state says so.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "checkpoint/run_folder.h"
#include "config/config.h"
#include "prepare/prepare.h"
#include "distributed/processes.h"

namespace lmtrain {

struct ResumeCheck {
  int64_t from = 0;                      // the step of the checkpoint it begins at; 0: the start
  int64_t steps = 0;                     // as asked for, or fewer where the run ends before
  int64_t interrupted_after = 0;         // steps, by a checkpoint
  std::vector<std::string> differences;  // the first of each part; empty: equal
  double seconds = 0;
};

// Returns the config with which the two ways are trained: that of a run, but nothing in it depends
// on the clock, and no checkpoint is made that is not needed. The data are prepared with it.
Config config_of_check(Config config);

// Trains both ways from the newest valid checkpoint that at least two steps of the run follow, or
// from the start. `config` is config_of_check's, resolved. Throws Error(kUsage) when the run has
// fewer than two steps; Error(kIo) where there is no room for three checkpoints; StopRequested on a
// signal; and all that training throws. Only the first of several processes calls it.
//
// Tests set `after_interruption`, which is given the folder with the checkpoint in the middle.
ResumeCheck verify_resume(
    const Config& config, const PreparedData& data, const RunFolder& run, int64_t steps,
    Processes& processes,
    const std::function<void(const std::filesystem::path&)>& after_interruption = nullptr);

}  // namespace lmtrain
