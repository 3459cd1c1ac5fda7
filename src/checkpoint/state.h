// Everything that resume restores besides weights and optimizer buffers: state.json of a
// checkpoint. Randomness is counter-based, so there is no generator among it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "batching/batch_order.h"
#include "train/guard.h"
#include "train/loss_scale.h"
#include "train/micro_batch_limits.h"

namespace lmtrain {

struct TrainingState {
  std::string run;                   // id of the run (run_identity.h); empty: an earlier lmtrain's
  int64_t seed = 0;                  // of the initial weights
  int64_t step = 0;                  // updates applied
  int64_t batch = 0;                 // next position in the order of data; skipped batches count
  int64_t tokens = 0;                // targets of the applied updates
  double elapsed = 0;                // seconds of training, over all resumes
  std::optional<double> loss;        // of the last update
  std::optional<double> eval_loss;   // of the last evaluation
  std::optional<int64_t> eval_step;  // at which it was made
  bool eval_pending = false;         // an evaluation was due at this step and a signal came first
  std::string fingerprint;           // of the data
  RunLength planned;                 // the length the run began with
  std::vector<Replan> replans;       // changes of it on resume
  RunLength total;                   // its length after them
  GuardState guard;
  std::optional<LossScale> loss_scale;  // fp16 alone
  bool kept = false;                    // the checkpoint of this step is never removed
  MicroBatchLimits micro;               // where memory did not hold batch.micro_tokens
};

std::string state_to_text(const TrainingState& state);
// Error(kCheckpoint) naming `origin`.
TrainingState parse_state(const std::string& text, const std::string& origin);

}  // namespace lmtrain
