#include "checkpoint/model_location.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/examine.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/text.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/retention.h"
#include "checkpoint/run_config.h"
#include "checkpoint/state.h"
#include "config/digest.h"
#include "config/parse.h"
#include "formats/manifest.h"

namespace lmtrain {
namespace {

namespace fs = std::filesystem;

// Returns the state of a checkpoint if it agrees with the manifest; else warns and returns nothing.
std::optional<TrainingState> whole_state(const fs::path& folder) {
  try {
    const Manifest manifest = read_manifest(folder);
    const auto entry = manifest.files.find(kStateFile);
    const std::string text = read_file(folder / kStateFile);
    const ManifestEntry found{text.size(), crc32c(0, text.data(), text.size())};
    if (entry == manifest.files.end() || entry->second != found)
      throw Error(ErrorKind::kCheckpoint, str(folder.string(), ": ", kStateFile, " is damaged"));
    return parse_state(text, (folder / kStateFile).string());
  } catch (const Error& error) {
    // A process that trains may have removed it.
    if (is_there(folder / kManifestFile))
      log_warning(str("the held-out loss of ", folder.string(), " is not known: ", error.what()));
    return std::nullopt;
  }
}

// The checkpoints of a run, newest first, with the held-out losses that are known.
struct KnownCheckpoints {
  std::vector<SavedCheckpoint> saved;
  bool compared = false;           // there was an evaluation after step 0
  std::vector<int64_t> damaged{};  // that a warning has named

  std::optional<double> loss_of(int64_t step) const {
    for (const SavedCheckpoint& checkpoint : saved)
      if (checkpoint.step == step) return checkpoint.eval_loss;
    return std::nullopt;
  }
};

KnownCheckpoints known_checkpoints(const RunFolder& run) {
  KnownCheckpoints known;
  std::optional<TrainingState> newest;
  for (const int64_t step : run.checkpoint_steps()) {
    SavedCheckpoint& saved = known.saved.emplace_back(SavedCheckpoint{.step = step});
    const std::optional<TrainingState> state = whole_state(run.checkpoint(step));
    if (!state) continue;
    if (state->step == step && state->eval_step == step) saved.eval_loss = state->eval_loss;
    known.compared = known.compared || (state->eval_loss && state->eval_step.value_or(0) > 0);
    if (!newest) newest = state;
  }
  if (!newest) return known;
  for (const EvaluatedStep& evaluated : newest->evaluations.after_save) {
    known.compared = known.compared || evaluated.step > 0;
    for (SavedCheckpoint& saved : known.saved)
      if (saved.step == evaluated.step) saved.eval_loss = evaluated.loss;
  }
  return known;
}

// Returns whether the process that trains has published a newer checkpoint, and so may have removed
// others.
bool has_newer(const RunFolder& run, const KnownCheckpoints& known) {
  const std::vector<int64_t> steps = run.checkpoint_steps();
  return !steps.empty() && (known.saved.empty() || steps.front() > known.saved.front().step);
}

// Returns the step of the valid checkpoint with the lowest held-out loss; nothing if there is none.
// Reads `known` again if a process that trains has changed the folder.
std::optional<int64_t> best_valid_checkpoint(const RunFolder& run, KnownCheckpoints& known) {
  std::vector<int64_t> best;
  const auto rank = [&] {
    best.clear();
    if (known.compared)
      best = best_checkpoints(known.saved, static_cast<int64_t>(known.saved.size()));
  };
  rank();
  for (size_t i = 0; i < best.size();) {
    try {
      verify_checkpoint(run, best[i], /*skip_training_state=*/true);
    } catch (const Error& error) {
      if (has_newer(run, known)) {
        known = known_checkpoints(run);
        rank();
        i = 0;
        continue;
      }
      if (!is_damage(error)) throw;
      warn_of_damage(error);
      known.damaged.push_back(best[i]);
      ++i;
      continue;
    }
    require_own_checkpoint(run, best[i]);
    return best[i];
  }
  return std::nullopt;
}

// " (held-out loss 3.4312)", or nothing where it is not known.
std::string loss_note(const char* label, const std::optional<double>& loss) {
  return loss ? str(" (", label, printed("%.4f", *loss), ")") : "";
}

// "step 12 of runs/a, the best (held-out loss 3.4312)", and how to take another one.
std::string describe_choice(const RunFolder& run, const KnownCheckpoints& known, int64_t step,
                            bool is_best, const ModelRequest& request) {
  const int64_t newest = known.saved.front().step;
  std::string text = str("checkpoint step ", step, " of ", run.path().string());
  if (is_best && step == newest) {
    text += ", the newest and the best";
  } else if (is_best) {
    text += ", the best";
  } else if (!request.step) {
    text += step == newest ? ", the newest" : ", the newest that is whole";
  }
  text += loss_note("held-out loss ", known.loss_of(step));
  if (request.command.empty()) text += str(": ", run.checkpoint(step).string());
  if (request.last || request.step) {
    const std::vector<int64_t> best = best_checkpoints(known.saved, 1);
    if (known.compared && !best.empty() && best.front() != step)
      text += str("; the best is step ", best.front(), loss_note("", known.loss_of(best.front())));
    return text;
  }
  if (!known.compared) text += "; no evaluation says which is the best";
  const bool takes_options = !request.command.empty();
  if (is_best && step != newest) {
    const std::string which = takes_options
                                  ? str("--last takes the newest, step ", newest)
                                  : str("the newest is ", run.checkpoint(newest).string());
    text += str("; ", which, loss_note("", known.loss_of(newest)));
  }
  if (takes_options && known.saved.size() > 1)
    text += str(is_best && step != newest ? ", " : "; ", "--step N takes another");
  return text;
}

[[noreturn]] void refuse_no_checkpoint(const RunFolder& run) {
  throw Error(ErrorKind::kUsage, str("the run in ", run.path().string(), " has no checkpoint yet"));
}

int64_t checkpoint_of_step(const RunFolder& run, int64_t step) {
  require_checkpoint_of_step(run, step);
  verify_checkpoint(run, step, /*skip_training_state=*/true);
  require_own_checkpoint(run, step);
  return step;
}

int64_t chosen_checkpoint(const RunFolder& run, const ModelRequest& request) {
  if (run.checkpoint_steps().empty()) refuse_no_checkpoint(run);
  KnownCheckpoints known = known_checkpoints(run);
  std::optional<int64_t> step;
  if (request.step) {
    step = checkpoint_of_step(run, *request.step);
  } else if (!request.last) {
    step = best_valid_checkpoint(run, known);
  }
  const bool is_best = step && !request.step;
  if (!step) step = newest_valid_checkpoint(run, /*skip_training_state=*/true, known.damaged);
  if (!step || known.saved.empty()) refuse_no_checkpoint(run);
  log_note(describe_choice(run, known, *step, is_best, request));
  return *step;
}

void require_no_choice(const fs::path& path, const ModelRequest& request) {
  if (!request.last && !request.step) return;
  throw Error(ErrorKind::kUsage,
              str(request.last ? "--last" : "--step", " chooses a checkpoint of a run folder, and ",
                  path.string(), " is none"));
}

// A folder without a model may hold runs, or be a run that has just begun.
[[noreturn]] void refuse_folder(const fs::path& path, const ModelRequest& request) {
  const bool has_config = is_there(path / "config.json");
  if (has_config && is_there(RunFolder(path).events())) refuse_no_checkpoint(RunFolder(path));
  // RUN/checkpoints, with a slash at its end or without.
  const RunFolder run(fs::canonical(path).parent_path());
  const std::vector<int64_t> steps = run.checkpoint_steps();
  if (run.holds_run() && fs::canonical(path) == run.checkpoints() && !steps.empty()) {
    throw Error(ErrorKind::kUsage,
                str(path.string(), " is the folder of checkpoints of the run ", run.path().string(),
                    "; give that, or one of its checkpoints, such as ",
                    run.checkpoint(steps.front()).string()));
  }
  throw Error(ErrorKind::kUsage, str(path.string(), " holds no model: ",
                                     has_config ? "its config.json is not that of one"
                                                : "there is no config.json in it",
                                     name_runs_in(path, request.command)));
}

}  // namespace

ModelLocation locate_model(const fs::path& path, const ModelRequest& request) {
  if (const FileKind kind = examine(path).kind; kind != FileKind::kFolder) {
    throw Error(
        ErrorKind::kUsage,
        str(path.string(), kind == FileKind::kMissing ? " does not exist" : " is not a folder",
            "; give a run folder, a checkpoint, or a HF Llama folder"));
  }
  RunFolder run(path);
  if (is_folder(run.checkpoints())) {
    if (run.holds_run()) run = RunFolder(path, read_run_config(run).identity);
    const int64_t step = chosen_checkpoint(run, request);
    return {run.checkpoint(step), path, step};
  }
  require_no_choice(path, request);
  if (is_checkpoint_folder(path)) {
    const Manifest manifest = verify_checkpoint_files(path, /*skip_training_state=*/true);
    // A checkpoint lies in RUN/checkpoints/step_N, unless it was copied elsewhere.
    const fs::path parent = fs::canonical(path).parent_path().parent_path();
    const bool in_run = RunFolder(parent).holds_run() && is_folder(RunFolder(parent).checkpoints());
    return {path, in_run ? std::optional<fs::path>(parent) : std::nullopt, manifest.step};
  }
  const bool is_run_or_holds_runs =
      !is_model_folder(path) &&
      (is_there(RunFolder(path).events()) || !name_runs_in(path, request.command).empty());
  if (!is_there(path / "config.json") || is_run_or_holds_runs) refuse_folder(path, request);
  return {path, std::nullopt};
}

bool was_removed(const ModelLocation& location) {
  const bool is_gone = location.run && !is_there(location.folder / kManifestFile);
  if (is_gone) {
    log_note(str(location.folder.string(),
                 " was removed while it was read; another checkpoint of the run is taken"));
  }
  return is_gone;
}

ModelConfig located_model_config(const ModelLocation& location) {
  const fs::path file = location.folder / "config.json";
  return parse_hf_model_config(read_file(file), file.string());
}

int64_t located_max_length(const ModelLocation& location) {
  constexpr int64_t kLlamaDefault = 2048, kQwenDefault = 32768, kMistralDefault = 131072;
  constexpr int64_t kMistralWindow = 4096;
  const fs::path file = location.folder / "config.json";
  const auto json = shallow_json(read_file(file));
  if (!json.is_object()) return kLlamaDefault;
  const nlohmann::json type = json.value("model_type", nlohmann::json());
  const bool is_mistral = type == name_of(ModelArchitecture::kMistral);
  const bool is_qwen =
      type == name_of(ModelArchitecture::kQwen3) || type == name_of(ModelArchitecture::kQwen2);
  // located_model_config() refuses a model whose window is malformed.
  const nlohmann::json window =
      is_mistral ? json.value("sliding_window", nlohmann::json(kMistralWindow)) : nlohmann::json();
  const int64_t longest = window.is_number_integer() && window.get<int64_t>() > 0
                              ? window.get<int64_t>()
                              : kLongestRows;
  if (!json.contains("max_position_embeddings")) {
    return std::min(longest, is_mistral ? kMistralDefault : is_qwen ? kQwenDefault : kLlamaDefault);
  }
  const auto& value = json.at("max_position_embeddings");
  const bool fits =
      value.is_number_integer() && value.get<int64_t>() > 0 && value.get<int64_t>() <= kLongestRows;
  if (!fits) {
    throw Error(ErrorKind::kConfig,
                str(file.string(), ": /max_position_embeddings: ", value.dump(),
                    " is not a length; allowed: an integer from 1 to ", kLongestRows));
  }
  return std::min(longest, value.get<int64_t>());
}

}  // namespace lmtrain
