#include "checkpoint/retention.h"

#include <algorithm>

#include "base/error.h"
#include "base/examine.h"
#include "base/file.h"
#include "base/log.h"
#include "base/text.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/trial.h"
#include "formats/manifest.h"

namespace lmtrain {
namespace {

// Returns the checkpoint as its state.json describes it. Its loss is unknown if the state is of
// another step; only its step is known if the state is damaged.
SavedCheckpoint describe_checkpoint(const RunFolder& run, int64_t step,
                                    const EvaluationHistory& evaluations) {
  SavedCheckpoint saved{.step = step};
  const std::filesystem::path folder = run.checkpoint(step);
  try {
    if (!is_there(folder / kStateFile)) return saved;
    const TrainingState state = read_state(folder);
    saved.kept = state.kept;
    if (state.step == step && state.eval_step == step) saved.eval_loss = state.eval_loss;
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kCheckpoint && error.kind() != ErrorKind::kData) throw;
    return saved;
  }
  for (const EvaluatedStep& evaluated : evaluations.after_save)
    if (evaluated.step == step) saved.eval_loss = evaluated.loss;
  return saved;
}

void remove_manifest(const std::filesystem::path& checkpoint) {
  if (!is_link(checkpoint)) remove_tree(checkpoint / kManifestFile);
}

}  // namespace

std::vector<int64_t> best_checkpoints(const std::vector<SavedCheckpoint>& saved, int64_t count) {
  std::vector<EvaluatedStep> evaluated;
  for (const SavedCheckpoint& checkpoint : saved)
    if (checkpoint.eval_loss) evaluated.push_back({checkpoint.step, *checkpoint.eval_loss});
  std::sort(evaluated.begin(), evaluated.end(), [](const EvaluatedStep& a, const EvaluatedStep& b) {
    return a.loss != b.loss ? a.loss < b.loss : a.step < b.step;
  });
  std::vector<int64_t> steps;
  for (const EvaluatedStep& best : evaluated) {
    if (static_cast<int64_t>(steps.size()) >= count) break;
    steps.push_back(best.step);
  }
  return steps;
}

std::vector<int64_t> best_checkpoints(const RunFolder& run, const TrainingState& newest,
                                      int64_t count) {
  std::vector<SavedCheckpoint> saved;
  for (const int64_t step : run.checkpoint_steps())
    saved.push_back(describe_checkpoint(run, step, newest.evaluations));
  return best_checkpoints(saved, count);
}

std::vector<int64_t> old_checkpoints(const std::vector<SavedCheckpoint>& newest_first,
                                     const CheckpointConfig& config) {
  const std::vector<int64_t> best = best_checkpoints(newest_first, config.keep_best);
  std::vector<int64_t> old;
  for (size_t i = static_cast<size_t>(std::max<int64_t>(config.keep, 1)); i < newest_first.size();
       ++i) {
    const SavedCheckpoint& saved = newest_first[i];
    const bool is_best = std::find(best.begin(), best.end(), saved.step) != best.end();
    if (!saved.kept && !is_best) old.push_back(saved.step);
  }
  return old;
}

void remove_old_checkpoints(const RunFolder& run, const TrainingState& newest,
                            const CheckpointConfig& config) {
  try {
    std::vector<SavedCheckpoint> saved;
    for (const int64_t step : run.checkpoint_steps()) {
      if (step > newest.step) continue;
      saved.push_back(describe_checkpoint(run, step, newest.evaluations));
    }
    for (const int64_t step : old_checkpoints(saved, config)) remove_checkpoint(run, step);
  } catch (const Error& error) {
    log_warning(str("older checkpoints are not removed yet: ", error.what()));
  }
}

void remove_checkpoint(const RunFolder& run, int64_t step) {
  remove_manifest(run.checkpoint(step));
  remove_tree(run.checkpoint(step));
}

void remove_checkpoints(const RunFolder& run) {
  if (!is_link(run.checkpoints())) {
    for (const int64_t step : run.checkpoint_steps()) remove_manifest(run.checkpoint(step));
  }
  remove_tree(run.checkpoints());
}

void remove_trial_checkpoints(const RunFolder& run, int64_t seed) {
  const RunFolder trial = trial_folder(run, seed);
  if (!is_link(run.trials()) && !is_link(trial.path())) remove_checkpoints(trial);
}

}  // namespace lmtrain
