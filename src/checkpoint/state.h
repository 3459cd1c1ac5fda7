// The training state is all that a resume loads besides weights and optimizer buffers: state.json
// of a checkpoint. Random numbers are counter-based, so it holds no generator.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "batching/batch.h"
#include "batching/batch_order.h"
#include "optim/guard.h"
#include "optim/loss_scale.h"
#include "schedule/due.h"

namespace lmtrain {

struct TrainingState {
  std::string run;                   // id of the run (RunIdentity)
  int64_t seed = 0;                  // the run's seed; with random restart, the trial's
  int64_t step = 0;                  // updates applied
  int64_t batch = 0;                 // number of the next batch in the order of data, from 0
  int64_t tokens = 0;                // targets of the applied updates
  double elapsed = 0;                // seconds of training, over all resumes
  std::optional<double> loss;        // of the last update, nats a target; nothing: none, or NaN
  std::optional<double> eval_loss;   // of the last evaluation, likewise
  std::optional<int64_t> eval_step;  // the step of the last evaluation
  bool eval_pending = false;         // the evaluation of this step was interrupted
  EvaluationHistory evaluations;     // the lowest held-out loss so far
  std::string fingerprint;           // identifies the training data
  RunLength planned;                 // the length the run began with
  std::vector<Replan> replans;       // each change of the length
  RunLength total;                   // the length after these changes
  GuardState guard;
  std::optional<LossScale> loss_scale;  // with fp16 alone
  bool kept = false;                    // the checkpoint of this step is never removed
  MicroBatchLimits micro;               // smaller micro-batches, where memory was too small
};

// Returns whether a resume from `saved` would go on otherwise than from `now`, so that `now` must
// be saved: step or batch, guard, loss scale or limits differ, or it would repeat an evaluation.
bool must_save_again(const TrainingState& saved, const TrainingState& now);

// Returns the JSON text of state.json.
std::string state_to_text(const TrainingState& state);
// Returns the state of such a text. Throws Error(kCheckpoint) that names `origin` if the text is no
// state, or of another version of the format.
TrainingState parse_state(const std::string& text, const std::string& origin);

}  // namespace lmtrain
