// What the trainer asks of its model at an evaluation, beside the held-out loss.
#include <algorithm>

#include "base/signal.h"
#include "run/eval_data.h"
#include "run/trainer.h"

namespace lmtrain {

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
