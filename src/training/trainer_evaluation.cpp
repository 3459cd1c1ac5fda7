// The part of the trainer that evaluates: the held-out loss, and the samples and tasks beside it.
#include <algorithm>
#include <cmath>

#include "base/activities.h"
#include "base/signal.h"
#include "checkpoint/retention.h"
#include "eval/evaluate.h"
#include "training/trainer.h"

namespace lmtrain {

void Trainer::evaluate_now() {
  shards_.gather_masters(engine_.parameters());
  if (state_.eval_step == state_.step) return;
  log_->begin_lap();
  if (!eval_shard_) {
    if (!state_.eval_step) log_->no_held_out_text();
    state_.eval_step = state_.step;
    log_->sampled(state_, write_samples());
    return log_->begin_lap();
  }
  const auto result = evaluate_held_out();
  const auto tasks = result ? ask_tasks() : std::nullopt;
  agreement_.refresh();
  state_.eval_pending = !tasks;
  if (!tasks) return;
  state_.eval_step = state_.step;
  state_.eval_loss = result->all.loss();
  const bool saved = saved_ && saved_->step == state_.step;
  note_evaluation(state_.evaluations, {state_.step, result->all.loss()}, config_.eval, saved);
  const std::vector<SampledText> samples = write_samples();
  log_->evaluated(state_, *result, *tasks);
  log_->sampled(state_, samples);
  if (!std::isfinite(result->all.loss())) {
    require_only_loss_lost(config_, first_bad_weight(), state_.step, has_all_steps(stop()));
    log_->eval_loss_not_finite(state_);
  }
  if (config_.checkpoint.keep_best == 0) return;
  if (saved && processes_.is_first()) remove_old_checkpoints(run_, state_, config_.checkpoint);
  if (is_lowest(state_.evaluations, state_.step)) save_checkpoint();
}

std::optional<Evaluation> Trainer::evaluate_held_out() {
  Activity evaluating("evaluating");
  const auto keep_going = [&] {
    evaluating.get_further();
    return stop_signal() == 0;
  };
  state_.eval_pending = true;  // a run that ends here evaluates when it goes on
  try {
    return evaluate(engine_.evaluation_model(), *eval_shard_, eval_sets_,
                    evaluation_options(config_, state_.micro), keep_going, processes_);
  } catch (const UnreadRows& unread) {
    save_and_end(unread.is_own() ? std::current_exception() : nullptr);
  } catch (const std::exception&) {  // such as a lack of memory: the weights are sound
    if (!processes_.is_only()) throw;
    save_and_end(std::current_exception());
  }
}

std::vector<SampledText> Trainer::write_samples() {
  if (!samples_) return {};
  return samples_->write(engine_.evaluation_model(), [] { return stop_signal() == 0; });
}

std::optional<std::vector<TaskResult>> Trainer::ask_tasks() {
  if (!tasks_) return std::vector<TaskResult>();
  auto results = tasks_->ask(engine_.evaluation_model(),
                             evaluation_options(config_, state_.micro).batch_tokens,
                             [] { return stop_signal() == 0; });
  // A signal may have reached some of the processes alone.
  const std::vector<double> whole = processes_.all_gather({results ? 1.0 : 0.0});
  if (std::find(whole.begin(), whole.end(), 0.0) != whole.end()) results.reset();
  return results;
}

}  // namespace lmtrain
