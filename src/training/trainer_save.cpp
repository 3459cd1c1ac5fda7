// The part of the trainer that saves: a checkpoint, what becomes of one that could not be written,
// and the last one of a run whose rows cannot be read.
#include "base/activities.h"
#include "base/error.h"
#include "base/log.h"
#include "base/random_id.h"
#include "base/text.h"
#include "checkpoint/checkpoint.h"
#include "device/failure.h"
#include "device/torch_headers.h"
#include "optim/guard.h"
#include "training/trainer.h"

namespace lmtrain {
namespace {

// Notes a save from here to the end of the block.
class SaveNote {
 public:
  explicit SaveNote(Processes& processes) : processes_(processes) { processes.mark_saving(true); }
  ~SaveNote() { processes_.mark_saving(false); }
  SaveNote(const SaveNote&) = delete;
  SaveNote& operator=(const SaveNote&) = delete;

 private:
  Processes& processes_;
};

}  // namespace

void Trainer::prepare_saves() {
  if (shards_.is_divided()) {
    // The trial lies in an unfinished checkpoint, so the next start removes what a kill leaves.
    writers_ = CheckpointWriters::find(processes_, run_.unfinished_checkpoint(0, random_id()));
    const int writers = 1 + static_cast<int>(writers_.others().size());
    if (writers < processes_.count() && processes_.is_first())
      log_note(str(writers, " of ", processes_.count(),
                   " processes write checkpoints: the others do not see ", run_.path().string(),
                   ", cannot write there, or its file system mixes up what several processes write "
                   "to one file; rank 0 writes what they send, and keeps it in memory meanwhile"));
  }
  shared_save_.emplace(processes_, shards_, writers_, run_, texts_, engine_.layout(),
                       config_.checkpoint);
  if (!writers_.writes(processes_.rank())) return;
  saver_ = std::make_unique<CheckpointSaver>(
      config_.checkpoint.async,
      [this](const TrainingState& saved, double seconds) { log_->saved(saved, seconds); },
      [this](const TrainingState& lost, const std::exception_ptr& failure) {
        save_failed(lost, failure);
      });
}

std::string Trainer::first_bad_weight() const {
  return shards_.first_of_all(
      first_bad_tensor(engine_.layout(), engine_.parameters().master(), shards_.owned()));
}

void Trainer::save_checkpoint() {
  const bool is_wanted = !saved_ || must_save_again(*saved_, state_);
  if (is_wanted) log_->begin_lap();
  // Where the save under way has failed and the run ends, it ends before the others rely on a new
  // one.
  if (is_wanted && saver_) saver_->wait();
  // Only the first process learns that a save has failed, and all are needed for another one.
  const auto attempt = shared_save_->new_attempt(is_wanted);
  if (!attempt) return;
  const Activity saving("copying weights and optimizer for the checkpoint");
  require_finite_weights(config_, first_bad_weight(), state_.step);
  CheckpointSnapshot snapshot{state_, shards_.collect_masters(engine_.parameters(), writers_),
                              shards_.collect(engine_.optimizer(), writers_)};
  saved_ = state_;
  try {
    log_->sync();
  } catch (const Error&) {
    shared_save_->call_off(*attempt);
    return save_failed(state_, std::current_exception());
  }
  if (saver_) {
    saver_->save(state_, [this, attempt, snapshot = std::move(snapshot)] {
      const SaveNote note(processes_);
      shared_save_->write(*attempt, snapshot);
    });
  }
  log_->add_save();
  log_->running(state_);
}

void Trainer::save_and_end(const std::exception_ptr& error) {
  ending_ = true;  // so that a save that fails is an error, whatever checkpoint.on_save_error is
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
    // Without its last checkpoint a run has not ended well, whatever was asked for. Nor does a run
    // go on that has lost a process.
    const bool ends = config_.checkpoint.on_save_error == SaveErrorPolicy::kStop ||
                      (ending_ && lost.step == state_.step) ||
                      dynamic_cast<const ProcessLost*>(&error) != nullptr;
    log_->save_failed(lost, describe_failure(error).message, /*goes_on=*/!ends);
    if (ends) throw;
    if (saved_ && saved_->step == lost.step) saved_.reset();
  }
}

}  // namespace lmtrain
