// The part of the trainer that saves: a checkpoint, what becomes of one that could not be written,
// and the last one of a run whose rows cannot be read.
#include "base/activities.h"
#include "base/error.h"
#include "base/terminal/log.h"
#include "base/text.h"
#include "checkpoint/checkpoint.h"
#include "device/torch_headers.h"
#include "run/incident.h"
#include "run/trainer.h"
#include "train/failure.h"

namespace lmtrain {

void Trainer::save_checkpoint() {
  // Only the first process learns that a save has failed, and all are needed for another one.
  if (shards_.as_the_first_says(saved_ && !must_save_again(*saved_, state_))) return;
  const Activity saving("copying weights and optimizer for the checkpoint");
  shards_.gather_masters(engine_.parameters());
  require_finite_weights(config_, engine_.parameters(), state_.step);
  recorder_->begin_lap();
  at::Tensor master = shards_.collect_masters(engine_.parameters());
  std::vector<OptimizerBuffer> buffers = shards_.collect(engine_.optimizer());
  saved_ = state_;
  try {
    recorder_->sync();
  } catch (const Error&) {
    return save_failed(state_, std::current_exception());
  }
  if (saver_) saver_->save({state_, std::move(master), std::move(buffers)});
  recorder_->add_save();
  recorder_->running(state_);
}

void Trainer::end_with_unread_rows(const std::exception_ptr& error) {
  try {
    step_sum_.end_begun_sum();
    save_checkpoint();
    if (saver_) saver_->wait();
    processes_.barrier();  // the first process has saved
  } catch (const std::exception& failure) {
    log_warning(
        str("the steps since the last checkpoint are lost: ", describe_failure(failure).message));
    if (!error) throw;
  }
  if (error) std::rethrow_exception(error);
  processes_.barrier();  // throws, since the process that has the error ends
  throw Error(ErrorKind::kInternal, "a process that could not read its rows goes on");
}

void Trainer::save_failed(const TrainingState& lost, const std::exception_ptr& failure) {
  try {
    std::rethrow_exception(failure);
  } catch (const std::exception& error) {
    // Without its last checkpoint a run has not ended well, whatever was asked for.
    const bool ends = config_.checkpoint.on_save_error == SaveErrorPolicy::kStop ||
                      (ending_ && lost.step == state_.step);
    recorder_->save_failed(lost, describe_failure(error).message, /*goes_on=*/!ends);
    if (ends) throw;
    if (saved_ && saved_->step == lost.step) saved_.reset();
  }
}

}  // namespace lmtrain
