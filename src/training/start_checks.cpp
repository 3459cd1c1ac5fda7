#include "training/start_checks.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <functional>
#include <system_error>

#include "base/error.h"
#include "base/examine.h"
#include "base/file.h"
#include "base/retry.h"
#include "base/text.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/retention.h"
#include "checkpoint/run_config.h"
#include "device/device_memory.h"
#include "distributed/process_checks.h"
#include "eval/samples.h"
#include "eval/task_probe.h"
#include "model/round_weights.h"
#include "training/memory_plan.h"
#include "training/micro_batch_limits.h"
#include "training/resolve.h"

namespace lmtrain {
namespace {

namespace fs = std::filesystem;

// The folder itself, or the nearest one above it that is there.
fs::path existing_part(const fs::path& folder) {
  fs::path there = folder;
  while (!is_there(there) && there.has_relative_path()) there = there.parent_path();
  return there;
}

void require_writable(const fs::path& folder) {
  const fs::path there = existing_part(folder);
  constexpr size_t kLongestName = 255;  // NAME_MAX of the usual file systems
  for (const fs::path& name : folder) {
    if (name.native().size() <= kLongestName) continue;
    throw Error(ErrorKind::kIo,
                str("cannot create the folder ", folder.string(), ": a name of ",
                    name.native().size(), " bytes is too long; give a shorter one with --run-dir"));
  }
  if (!is_folder(there)) {
    throw Error(ErrorKind::kIo, str("cannot create the folder ", folder.string(), ": ",
                                    there.string(), " is not a folder"));
  }
  Retry retry;
  while (::access(there.c_str(), W_OK | X_OK) != 0) {
    if (retry.again(errno)) continue;
    throw Error(
        ErrorKind::kIo,
        str("cannot write to ", there.string(), ": ", std::generic_category().message(errno),
            "; check its permissions, or give another folder with --run-dir"));
  }
}

}  // namespace

void require_no_model(const RunFolder& run) {
  if (!is_model_folder(run.path())) return;
  require_config_of_run(run);
  throw Error(
      ErrorKind::kUsage,
      str(run.path().string(),
          " is a model, not a run; choose another folder with --run-dir, and begin with its "
          "weights by --set init_from=",
          shell_quoted(run.path().string())));
}

void require_new_run(const RunFolder& run) {
  require_no_model(run);
  if (run.holds_run()) {
    throw Error(
        ErrorKind::kUsage,
        str(run.path().string(), " already holds a run; go on with it: lmtrain resume ",
            shell_quoted(run.path().string()), "; or choose another folder with --run-dir"));
  }
  if (is_folder(run.path()) && (!run.checkpoint_steps().empty() || is_there(run.trials()))) {
    throw Error(ErrorKind::kUsage,
                str(run.path().string(),
                    " holds checkpoints or trials of a run whose config.json is gone; put it back, "
                    "move them away, or choose another folder with --run-dir"));
  }
  require_writable(run.path());
}

void require_held_out_text(const Config& config, const PreparedData& data) {
  if (data.eval_shard) return;
  const std::string needs =
      config.restart.seeds > 1
          ? str("restart.seeds ", config.restart.seeds, " ranks trials by held-out loss")
      : config.eval.early_stop ? "eval.early_stop ends the run by its held-out loss"
      : config.eval.tasks      ? "eval.tasks belongs to evaluations"
                               : "";
  if (needs.empty()) return;
  throw Error(ErrorKind::kConfig,
              needs + ", and there is no held-out text; set data.eval or data.eval_fraction");
}

void require_probes(const Config& config, const PreparedData& data) {
  if (!config.log.samples && !config.eval.tasks) return;
  const Tokenizer tokenizer = Tokenizer::load(data.tokenizer_model);
  if (config.log.samples) SampleWriter(config, tokenizer);
  if (config.eval.tasks) TaskProbe(config, tokenizer);
}

uint64_t checkpoint_bytes(const Config& config) {
  const MemoryPlan plan = plan_memory(config, precision_of(config), /*micro_positions=*/0);
  constexpr int64_t kBytesOfPiece = 32;  // of a tokenizer, on average at most
  const int64_t weights = stored_weight_bytes(plan.weights, config.checkpoint.dtype);
  return kSmallFilesOfCheckpoint +
         static_cast<uint64_t>(weights + plan.optimizer + kBytesOfPiece * *config.model.vocab_size);
}

void require_room_for_checkpoint(const Config& config, const RunFolder& run) {
  require_free_space(existing_part(run.checkpoints()), checkpoint_bytes(config),
                     str("a checkpoint of ", run.path().string()));
}

void make_room_for_checkpoint(const Config& config, const RunFolder& run,
                              const TrainingState& state) {
  const CheckpointConfig& checkpoint = config.checkpoint;
  remove_old_checkpoints(run, state, checkpoint);
  try {
    require_room_for_checkpoint(config, run);
  } catch (const Error& error) {
    std::vector<std::string> settings;
    if (checkpoint.keep > 1) settings.push_back(str("checkpoint.keep (", checkpoint.keep, ")"));
    if (checkpoint.keep_best > 0)
      settings.push_back(str("checkpoint.keep_best (", checkpoint.keep_best, ")"));
    if (settings.empty()) throw;
    throw Error(error.kind(), str(error.what(), ", or lower ", join(settings, " or "),
                                  ", and older checkpoints are removed"));
  }
}

std::vector<std::string> start_obstacles(const Config& config, const PreparedData& data,
                                         const RunFolder& run, int num_processes) {
  std::vector<std::string> obstacles;
  const auto ask = [&](const std::function<void()>& require) {
    try {
      require();
    } catch (const Error& error) {
      obstacles.emplace_back(error.what());
    }
  };
  ask([&] { check_processes(config.parallel, num_processes); });
  ask([&] { check_division(config, num_processes); });
  ask([&] { require_new_run(run); });
  ask([&] { require_held_out_text(config, data); });
  ask([&] { require_probes(config, data); });
  const at::Device device = device_of(config);
  ask([&] {
    require_memory(config, available_memory(device), num_processes);
    if (device.is_cpu()) require_longest_row(config, available_memory(device), num_processes);
  });
  ask([&] { require_room_for_checkpoint(config, run); });
  return obstacles;
}

CheckpointRoom checkpoint_room(const Config& config, const RunPlan& plan, const RunFolder& run) {
  CheckpointRoom room;
  room.each = checkpoint_bytes(config);
  if (plan.kept_checkpoints) {
    const int64_t best = plan.best_checkpoints == 0 ? 0 : config.checkpoint.keep_best;
    room.at_once = config.checkpoint.keep + best + *plan.kept_checkpoints + 1;
    if (plan.checkpoints && plan.best_checkpoints)
      room.at_once = std::min(*room.at_once, *plan.checkpoints + *plan.best_checkpoints);
  }
  room.where = existing_part(run.checkpoints());
  std::error_code error;
  room.available = fs::space(room.where, error).available;
  if (error) room.available = UINT64_MAX;  // it cannot be known
  return room;
}

std::string describe_room(const CheckpointRoom& room) {
  const std::string count = room.at_once ? str("at most ", *room.at_once, " at once of ") : "";
  const std::string free =
      room.available == UINT64_MAX ? "" : ", " + format_bytes(room.available) + " free";
  return str(count, format_bytes(room.each), " each", free, " in ", room.where.string());
}

}  // namespace lmtrain
