#include "training/load_run.h"

#include <algorithm>
#include <string>

#include "base/text.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/given_model.h"
#include "checkpoint/share_state.h"
#include "device/device_memory.h"
#include "device/torch_headers.h"
#include "training/micro_batch_limits.h"
#include "training/resolve.h"

namespace lmtrain {
namespace {

TrainingState first_state(const Config& config, const PreparedData& data) {
  TrainingState state;
  state.seed = config.seed;
  state.fingerprint = data.fingerprint;
  state.planned = run_length(config.train, 0);
  state.total = state.planned;
  return state;
}

}  // namespace

std::optional<int64_t> newest_checkpoint(const RunFolder& run, Processes& processes) {
  std::optional<int64_t> newest;
  if (processes.is_first()) newest = newest_valid_checkpoint(run, /*skip_training_state=*/false);
  const std::string step = processes.broadcast(newest ? str(*newest) : "");
  return step.empty() ? std::nullopt : std::optional<int64_t>(std::stoll(step));
}

TrainingState load_run(const Config& config, const PreparedData& data, const RunFolder& run,
                       std::optional<int64_t> checkpoint, Engine& engine, Processes& processes,
                       OptimizerShards& shards) {
  TrainingState state;
  // With divided weights rank 0 reads all masters into host memory, and hands them out.
  std::optional<Parameters> read;
  if (processes.is_first() && shards.divides_weights() && (checkpoint || config.init_from)) {
    require_memory_to_read(config, available_memory(at::kCPU), processes.count());
    read.emplace(Parameters::releasable(engine.layout(), at::kFloat));
  }
  Parameters& target = read ? *read : engine.parameters();
  if (!processes.is_first()) {
    engine.reset_optimizer();
  } else if (checkpoint) {
    state = load_checkpoint(run.checkpoint(*checkpoint), target);
  } else {
    state = first_state(config, data);
    if (config.init_from) {
      engine.reset_optimizer();
      load_initial_weights(*config.init_from, target, run.identity().init_from);
    } else if (!shards.divides_weights()) {
      engine.initialize(config.seed);
    }
  }
  share_state(processes, shards, state, engine.parameters());
  shards.note_masters_alike();
  if (shards.divides_weights()) {
    if (checkpoint || config.init_from) {
      shards.hand_out_masters(read ? read->master() : at::Tensor(), engine.parameters());
      read.reset();
    } else {
      engine.initialize_masters(config.seed, shards.owned());
    }
    shards.spread_masters(engine.parameters());
  }
  if (checkpoint) {
    ReadBuffer read_buffer;
    if (processes.is_first()) read_buffer = optimizer_reader(run.checkpoint(*checkpoint));
    shards.load(engine.optimizer(), read_buffer);
  }
  adapt_state(state, config);
  return state;
}

void adapt_state(TrainingState& state, const Config& config) {
  if (state.micro.micro_tokens != *config.batch.micro_tokens) state.micro = {};
  const RunLength length = run_length(config.train, count_paced_replans(state));
  if (length != state.total) {
    RunLength left = length;
    if (length.steps > 0) left.steps = std::max<int64_t>(1, length.steps - state.step);
    if (length.tokens > 0) left.tokens = std::max<int64_t>(1, length.tokens - state.tokens);
    state.replans.push_back({state.batch, left});
    state.total = length;
    // From here on these numbers mean other batches.
    std::erase_if(state.guard.skipped_batches, [&](int64_t batch) { return batch >= state.batch; });
  }
  if (config.precision != PrecisionSetting::kFp16) {
    state.loss_scale.reset();
  } else if (!state.loss_scale) {
    state.loss_scale.emplace();
  }
}

size_t count_paced_replans(const TrainingState& state) {
  return static_cast<size_t>(std::ranges::count_if(
      state.replans, [](const Replan& replan) { return replan.pace.has_value(); }));
}

void replan_at_pace(TrainingState& state, const RunClock& now, int64_t tokens) {
  const RunLength left = {.tokens = std::max<int64_t>(1, tokens - state.tokens)};
  state.replans.push_back(
      {state.batch, left, Pace{state.tokens, now.done(), state.tokens + left.tokens}});
  state.total = {.tokens = tokens};
}

BatchOrderSpec order_spec(const Config& config, const PreparedData& data, const TokenShard& shard,
                          const TrainingState& state) {
  return {.shard = shard,
          .sources = data.sources,
          .fingerprint = data.fingerprint,
          .sequence = config.sequence,
          .data = config.data,
          .data_seed = config.data_seed(),
          .batch_tokens = config.batch.tokens,
          .run = state.planned,
          .replans = state.replans};
}

BatchOrderSpec order_spec(const Config& config, const PreparedData& data, const TokenShard& shard) {
  TrainingState state;
  state.planned = run_length(config.train);
  return order_spec(config, data, shard, state);
}

void keep_after_rollback(TrainingState& loaded, const TrainingState& left, int64_t refused_batch) {
  const GuardState& before = left.guard;
  const bool again = before.rollbacks_in_a_row > 0 && before.rollback_step == loaded.step;
  loaded.guard.skipped_batches = before.skipped_batches;
  loaded.guard.skipped_batches.push_back(refused_batch);
  loaded.guard.rollback_step = loaded.step;
  loaded.guard.rollbacks_in_a_row = again ? before.rollbacks_in_a_row + 1 : 1;
  loaded.micro = left.micro;
}

}  // namespace lmtrain
