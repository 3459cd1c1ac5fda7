#include "checkpoint/remove_checkpoint.h"

#include "base/examine.h"
#include "base/file.h"
#include "checkpoint/trial.h"
#include "formats/manifest.h"

namespace lmtrain {
namespace {

void remove_manifest(const std::filesystem::path& checkpoint) {
  if (!is_link(checkpoint)) remove_tree(checkpoint / kManifestFile);
}

}  // namespace

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
