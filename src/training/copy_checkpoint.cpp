#include "training/copy_checkpoint.h"

#include <optional>
#include <string>

#include "base/error.h"
#include "base/examine.h"
#include "base/file.h"
#include "base/log.h"
#include "base/publish.h"
#include "base/text.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/trial.h"
#include "formats/manifest.h"
#include "runlog/metrics_check.h"

namespace lmtrain {
namespace {

namespace fs = std::filesystem;

// Writes state.json of the checkpoint `from` for the run `run`. A branch compares its evaluations
// only with each other and with the evaluation of the checkpoint at which it begins.
FileSum write_state(const fs::path& from, const RunIdentity& run, const fs::path& to) {
  TrainingState state = read_state(from);
  state.run = run.id;
  if (run.branch_of) {
    state.evaluations = {};
    if (state.eval_step == state.step && state.eval_loss)
      state.evaluations.lowest = {state.step, *state.eval_loss};
  }
  return write_file_synced(to, state_to_text(state));
}

}  // namespace

int64_t checkpoint_of_branch(const RunFolder& from, std::optional<int64_t> step) {
  if (step) require_checkpoint_of_step(from, *step);
  const std::optional<int64_t> chosen =
      step ? step : newest_valid_checkpoint(from, /*skip_training_state=*/false);
  if (!chosen) {
    throw Error(ErrorKind::kUsage,
                str("there is no checkpoint in ", from.path().string(), " to branch from"));
  }
  verify_checkpoint(from, *chosen, /*skip_training_state=*/false);
  require_own_checkpoint(from, *chosen);
  return *chosen;
}

Config config_of_branch(const Config& config, int64_t seed, const RunFolder& branch) {
  Config of_branch = config_of_seed(config, seed);
  of_branch.restart = {};
  if (branch.path().has_filename()) of_branch.name = branch.path().filename().string();
  of_branch.run_dir = branch.path().string();
  return of_branch;
}

void copy_metrics(const RunFolder& from, const RunFolder& to) {
  if (is_there(from.metrics())) write_file_atomic(to.metrics(), MappedFile(from.metrics()).bytes());
}

void copy_checkpoint(const RunFolder& from, int64_t step, const RunFolder& to) {
  const fs::path source = from.checkpoint(step);
  const fs::path copy = to.unfinished_checkpoint(step);
  remove_tree(copy);
  lmtrain::create_directories(copy);
  Manifest manifest = read_manifest(source);
  uint64_t bytes = 0;
  for (const auto& [name, entry] : manifest.files) bytes += entry.size;
  require_free_space(copy, bytes, "a copy of a checkpoint");
  for (auto& [name, entry] : manifest.files) {
    const FileSum copied = copy_file_synced(source / name, copy / name);
    if (copied != FileSum{entry.size, entry.crc32c}) {
      throw Error(
          ErrorKind::kCheckpoint,
          str((source / name).string(), " is not as its manifest says; take another checkpoint"));
    }
    if (name != kStateFile || to.identity().id.empty()) continue;
    const FileSum renamed = write_state(source, to.identity(), copy / name);
    entry = {renamed.size, renamed.crc};
  }
  write_manifest(copy, manifest);
  // The metrics that belong to the checkpoint are on disk before it.
  copy_metrics(from, to);
  replace_folder(copy, to.checkpoint(step));
}

void finish_branch(const RunFolder& run) {
  const std::optional<BranchPoint>& point = run.identity().branch_of;
  if (!point || !run.checkpoint_steps().empty()) return;
  const RunFolder from(point->run_dir, RunIdentity{.id = point->run});
  const std::string checkpoint = from.checkpoint(point->step).string();
  try {
    verify_checkpoint(from, point->step, /*skip_training_state=*/false);
    require_own_checkpoint(from, point->step);
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::kIo) throw;
    const std::string folder = shell_quoted(run.path().string());
    throw Error(ErrorKind::kCheckpoint,
                str("the run in ", run.path().string(), " is a branch that begins at ", checkpoint,
                    ", and has no checkpoint; nor can it begin there again: ", error.what(),
                    "; begin another branch: rm -r ", folder, " && lmtrain resume ",
                    shell_quoted(from.path().string()), " --run-dir ", folder));
  }
  // It was under way before, and its checkpoints are gone.
  if (is_there(run.events())) {
    const std::string left_behind = put_metrics_aside(run, point->step);
    if (!left_behind.empty()) log_warning(left_behind);
  }
  log_note(str("the branch in ", run.path().string(), " begins at ", checkpoint));
  copy_checkpoint(from, point->step, run);
}

}  // namespace lmtrain
