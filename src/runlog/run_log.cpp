#include "runlog/run_log.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/elapsed.h"
#include "base/error.h"
#include "base/examine.h"
#include "base/log.h"
#include "base/text.h"
#include "checkpoint/model_card.h"
#include "device/device.h"
#include "device/device_memory.h"
#include "eval/eval_share.h"
#include "formats/strict_json.h"
#include "runlog/metrics_check.h"
#include "runlog/report.h"

namespace lmtrain {
namespace {

using Json = nlohmann::ordered_json;

TimeLeft time_left(const Config& config, const ParameterLayout& layout, int64_t eval_targets) {
  const auto flops_per_token = [layout](int64_t length) {
    return layout.causal_flops_per_token(length);
  };
  const auto tokens_per_step = static_cast<double>(config.batch.tokens);
  return TimeLeft(
      [=](int64_t length) { return tokens_per_step * flops_per_token(length); },
      evaluation_cost(config, eval_targets) * flops_per_token(config.sequence.max_length));
}

// Batches to come, as far as known.
int64_t batches_left(const Config& config, const TrainingState& state, const RunAhead& ahead) {
  const double end = ahead.rules.trial_end.value_or(ahead.now.total);
  if (config.train.steps) return std::max<int64_t>(0, std::llround(end - ahead.now.done()));
  const double part = ahead.rules.trial_end ? end / ahead.now.total : 1.0;
  const auto last = std::llround(part * static_cast<double>(ahead.order.num_batches()));
  return std::max<int64_t>(0, last - state.batch);
}

}  // namespace

Json start_fields(const Config& config) {
  const Precision evaluations = evaluation_precision(precision_of(config), device_of(config));
  return {{"version", LMTRAIN_VERSION},
          {"device", config.device},
          {"precision", name_of(config.precision)},
          {"eval_precision", precision_name(evaluations)}};
}

RunLog::RunLog(const Config& config, const RunFolder& run, std::optional<int64_t> eval_targets,
               Clock::time_point started, int num_processes, int rank)
    : config_(config),
      run_(run),
      layout_(config.model, *config.model.vocab_size),
      has_held_out_(eval_targets.has_value()),
      num_processes_(num_processes),
      is_quiet_(rank != 0),
      peak_flops_(known_peak_flops(device_of(config), precision_of(config).dtype)),
      time_left_(time_left(config, layout_, eval_targets.value_or(0))),
      started_(started),
      status_written_(started),
      lap_begin_(started) {}

std::string RunLog::done_status(const TrainingState& state) const {
  if (is_quiet_) return {};
  return lmtrain::done_status(run_, state.step);
}

void RunLog::note_finished(const TrainingState& state, Stop why) const {
  if (is_quiet_) return;
  const std::string end = why == Stop::kEarlyStop
                              ? str(" ended early: ", early_stop_reason(config_, state), "; ")
                              : " is finished: ";
  log_note(str("the run in ", run_.path().string(), end, state.step, " steps, ", state.tokens,
               " tokens"));
  log_note(next_after(why, evaluations(state.step)));
}

std::string RunLog::next_after(Stop why, const EndReport& report) const {
  return next_commands(run_.path(), config_, has_held_out_, why == Stop::kEarlyStop,
                       best_note(report));
}

EndReport RunLog::evaluations(std::optional<int64_t> saved_step) const {
  EndReport report;
  if (saved_step) {
    report.saved = run_.checkpoint(*saved_step);
    report.saved_step = *saved_step;
  }
  std::optional<EvaluatedStep>& best_saved = report.best_checkpoint;
  try {
    for_each_json_line_with(
        run_.metrics(), "\"eval_loss\"", [&](const nlohmann::json& line, uint64_t) {
          const std::optional<double> loss = number_at(line, "eval_loss");
          if (!loss || !line.contains("step") || !line["step"].is_number_integer()) return;
          report.last = {line["step"].get<int64_t>(), *loss};
          if (!report.best || report.last->loss < report.best->loss) report.best = report.last;
          if ((!best_saved || report.last->loss < best_saved->loss) &&
              is_folder(run_.checkpoint(report.last->step)))
            best_saved = report.last;
        });
  } catch (const Error& error) {
    log_warning(error.what());  // all else is done, and saved
  }
  if (report.last && report.last->step == 0) best_saved.reset();  // nothing to compare it with
  if (best_saved) report.best_path = run_.checkpoint(best_saved->step);
  return report;
}

std::string RunLog::finished_before(const TrainingState& state, Stop why, const std::string& status,
                                    const Json& changed_settings) const {
  if (is_quiet_) return {};
  // A run may have been killed after more steps than it has now.
  const MetricsDamage damage = mend_metrics(run_.metrics(), state);
  LogFiles log(run_, state, /*tensorboard=*/false);
  report_damage(damage, run_, state, log);
  if (!changed_settings.empty())
    log.event("resume", state, "the run is finished", {{"changed", changed_settings}});
  write_model_cards(run_);
  if (!status.empty()) return status;
  // A run that was killed in its last moment has not said that it is done.
  if (lmtrain::done_status(run_, state.step, /*of_any_folder=*/true).empty())
    log.event("end", state, why == Stop::kEarlyStop ? "early stop" : "done");
  return write_status(run_, "done", state, 0);
}

std::string RunLog::put_metrics_aside() const {
  if (is_quiet_) return {};
  std::string left_behind = lmtrain::put_metrics_aside(run_);
  if (!left_behind.empty()) log_warning(left_behind);
  return left_behind;
}

void RunLog::begin(const TrainingState& state) {
  if (is_quiet_) return;
  std::string kept_events;
  if (files_) {
    try {
      files_->sync();  // what a full disk has kept out of it
    } catch (const Error& error) {
      if (!outlives_full_disk()) throw;
      kept_events = files_->kept_events();  // kept metrics are of steps that come again
      log_warning(str(error.what(), "; the run goes on"));
    }
  }
  files_.reset();
  const MetricsDamage damage = mend_metrics(run_.metrics(), state);
  files_.emplace(run_, state, config_.log.tensorboard, outlives_full_disk(), kept_events);
  report_damage(damage, run_, state, *files_);
  begin_prometheus(state);
  tokens_at_begin_ = state.tokens;
  elapsed_at_begin_ = state.elapsed;
  seconds_waited_ = 0;
  read_expectation(state);
}

void RunLog::begin_prometheus(const TrainingState& state) {
  if (!config_.log.prometheus) return;
  figures_ = {
      .step = state.step, .tokens = state.tokens, .loss = state.loss, .eval_loss = state.eval_loss};
  if (prometheus_) {
    prometheus_->refresh(figures_);
    return;
  }
  // The folder tells the runs of a sweep apart; a trial is a part of its run.
  const std::string name =
      without_final_slash(absolute_path(config_.resolved_run_dir())).filename();
  prometheus_.emplace(*config_.log.prometheus, name, host_name());
  prometheus_->write(figures_);
}

void RunLog::started(const TrainingState& state, bool resumed, const std::string& reason,
                     const Json& changed_settings) {
  if (is_quiet_) return;
  Json fields = start_fields(config_);
  if (!changed_settings.empty()) fields["changed"] = changed_settings;
  event(resumed ? "resume" : "start", state, reason, fields);
  is_started_ = true;
  if (resumed) log_note(str("resuming after step ", state.step));
  if (resumed && !reason.empty()) log_warning(str(reason, "; its bits are others from here on"));
  running(state);
}

void RunLog::first_step(const TrainingState& state, const StartTimes::Phases& phases) {
  if (is_quiet_ || phases.empty()) return;
  constexpr double kOfASecond = 1000;  // that the event tells
  const auto told = [](double seconds) { return std::round(seconds * kOfASecond) / kOfASecond; };
  double whole = 0;
  Json parts = Json::object();
  for (const auto& [name, seconds] : phases) {
    whole += seconds;
    parts[name] = told(seconds);
  }
  event("first_step", state, "", {{"seconds", told(whole)}, {"phases", parts}});
}

void RunLog::event(const std::string& name, const TrainingState& state, const std::string& reason,
                   const Json& fields) {
  if (!is_quiet_) files_->event(name, state, reason, fields);
}

double RunLog::lap() {
  const auto begin = std::exchange(lap_begin_, Clock::now());
  return std::chrono::duration<double>(lap_begin_ - begin).count();
}

void RunLog::update(const TrainingState& state, const AppliedStep& step, const RunAhead& ahead,
                    bool keep_line) {
  if (is_quiet_) return;
  const double tokens_per_second = static_cast<double>(step.targets) / step.seconds;
  const std::optional<double> mfu = model_flops_utilization(
      tokens_per_second * layout_.flops_per_token(step.length), num_processes_, peak_flops_);
  files_->update({state.step, state.tokens, step.loss, step.grad_norm, step.lr, step.length,
                  tokens_per_second, mfu, state.elapsed, step.balance});
  if (prometheus_) {
    const auto now = std::chrono::system_clock::now().time_since_epoch();
    figures_ = {.step = state.step,
                .tokens = state.tokens,
                .loss = step.loss,
                .eval_loss = figures_.eval_loss,
                .grad_norm = step.grad_norm,
                .lr = step.lr,
                .tokens_per_second = tokens_per_second,
                .last_step_time = std::chrono::duration<double>(now).count()};
    prometheus_->refresh(figures_);
  }
  time_left_.add_batch(step.length, lap());
  StepReport report;
  report.step = state.step;
  report.steps = config_.train.steps.value_or(ahead.order.num_batches());
  report.share = ahead.now.done() / ahead.now.total;
  report.loss = step.loss;
  report.lr = step.lr;
  report.length = step.length;
  report.tokens_per_second = static_cast<double>(state.tokens - tokens_at_begin_) /
                             std::max(1e-9, state.elapsed - elapsed_at_begin_);
  report.elapsed = std::chrono::duration<double>(lap_begin_ - started_).count();
  report.left = seconds_left(state, ahead);
  log_progress(step_line(report), keep_line);
}

TimeLeft::Ahead RunLog::left_to_do(const TrainingState& state, const RunAhead& ahead,
                                   bool steady) const {
  TimeLeft::Ahead left;
  const std::vector<int64_t> lengths = ahead.order.batch_lengths();
  const int64_t batches = batches_left(config_, state, ahead);
  const std::vector<int64_t> counts = ahead.order.count_lengths(state.batch, state.batch + batches);
  for (size_t i = 0; i < lengths.size(); ++i)
    left.training += static_cast<double>(counts[i]) * time_left_.batch_seconds(lengths[i], steady);
  // Evaluations and saves that fall due on this step come after it; on the last one it is what
  // comes at the end anyway.
  const RunClock& now = ahead.now;
  const double steps = static_cast<double>(std::max<int64_t>(0, batches - 1));
  const double part = batches > 0 ? steps / static_cast<double>(batches) : 0;
  const double tokens = config_.train.steps
                            ? static_cast<double>(ahead.order.num_targets() - state.tokens)
                        : ahead.rules.trial_end ? *ahead.rules.trial_end - now.done()
                                                : now.left();
  const RunClock last = now.after(steps, part * std::max(0.0, tokens), part * left.training);
  const auto with_the_last = [&](double due) {
    return 1 + std::min(static_cast<double>(batches), due);
  };
  left.saves = with_the_last(ahead.rules.save.estimate(ahead.before, last));
  if (has_held_out_)
    left.evaluations = with_the_last(ahead.rules.evaluate.multiples(ahead.before, last));
  // While the loss falls, each evaluation is followed by a save.
  if (config_.checkpoint.keep_best > 0) left.saves = std::max(left.saves, left.evaluations);
  return left;
}

std::optional<TimeCheck> RunLog::check_time(double seconds, const TrainingState& state,
                                            const RunAhead& ahead) const {
  if (is_quiet_) return std::nullopt;
  const TimeLeft::Ahead left = left_to_do(state, ahead, /*steady=*/true);
  if (left.training <= 0) return std::nullopt;
  const double late = time_left_.seconds(left) - seconds;
  const double part = std::max(0.0, (left.training - late) / left.training);
  return TimeCheck{late, std::llround(part * ahead.now.left())};
}

double RunLog::seconds_left(const TrainingState& state, const RunAhead& ahead) const {
  const double seconds = time_left_.seconds(left_to_do(state, ahead));
  if (!config_.train.max_time) return seconds;
  // Stopped by the clock it saves, and evaluates no more.
  return std::min(seconds, std::max(0.0, *config_.train.max_time - seconds_since(started_)) +
                               time_left_.seconds({.saves = 1}));
}

void RunLog::evaluated(const TrainingState& state, const Evaluation& evaluation,
                       const std::vector<TaskResult>& tasks) {
  if (is_quiet_) return;
  time_left_.add_evaluation(lap());
  files_->evaluation(state.step, state.tokens, evaluation, tasks);
  if (prometheus_) {
    figures_.eval_loss = evaluation.all.loss();
    prometheus_->refresh(figures_);
  }
  log_note(evaluation_note(state.step, evaluation));
  if (!tasks.empty()) log_note("tasks      " + task_line(tasks));
  compare_with_forecast(state, evaluation.all.loss());
  running(state);
}

void RunLog::read_expectation(const TrainingState& state) {
  if (config_.forecast) expected_ = read_expected_curve(expected_curve_file(run_.path()));
  if (expected_)
    compared_share_ = static_cast<double>(state.tokens) / expected_->points.back().tokens;
}

void RunLog::compare_with_forecast(const TrainingState& state, double loss) {
  if (!expected_ || !std::isfinite(loss)) return;
  constexpr double kSaidAt[] = {0.05, 0.25,
                                0.99};  // a run with skipped batches ends a little early
  // Before, sound runs lay up to 16 % above the curve (docs/forecast.md#checked).
  constexpr double kWarnsFrom = 0.25;
  const double total = expected_->points.back().tokens;
  const auto tokens = static_cast<double>(state.tokens);
  const double share = tokens / total;
  if (share < kSaidAt[0]) return;
  const double before = std::exchange(compared_share_, share);
  const ExpectedPoint expected = expected_->at(tokens);
  const bool is_within = expected.low <= loss && loss <= expected.high;
  const bool is_unexpected = !is_within && share >= kWarnsFrom;
  const bool leaves = is_unexpected && !is_unexpected_;
  is_unexpected_ = is_unexpected;
  const bool is_due =
      std::ranges::any_of(kSaidAt, [&](double at) { return before < at && share >= at; });
  if (!leaves && !is_due) return;
  const double off = 100 * (loss / expected.loss - 1);
  const std::string reason =
      str("held-out loss ", printed("%.4f", loss), " at ", printed("%.0f %%", 100 * share), ", ",
          printed("%.1f %%", std::abs(off)), off < 0 ? " below" : " above", " the forecast of ",
          printed("%.4f", expected.loss), " (", printed("%.4f", expected.low), " to ",
          printed("%.4f", expected.high), ")");
  event("forecast", state, reason,
        {{"eval_loss", loss},
         {"expected", expected.loss},
         {"low", expected.low},
         {"high", expected.high},
         {"within", is_within}});
  if (leaves) {
    log_warning(str(reason, "; is the text, or a setting, another than the forecast's?"));
  } else {
    log_note("forecast   " + reason);
  }
}

void RunLog::sampled(const TrainingState& state, const std::vector<SampledText>& samples) {
  if (is_quiet_) return;
  constexpr size_t kShown = 100;  // bytes of each text
  for (const SampledText& sample : samples) {
    event("sample", state, "",
          {{"prompt", sample.prompt},
           {"text", sample.text},
           {"tokens", sample.tokens},
           {"end", end_name(sample.end)}});
    log_note("sample     " + sample_line(sample, kShown));
  }
}

void RunLog::add_save() { time_left_.add_save(lap()); }

void RunLog::reduced_micro_batch(const TrainingState& state, const MicroBatchReduction& lowered) {
  if (is_quiet_) return;
  event(
      "oom_fit", state, lowered.reason,
      {{"seq_len", lowered.length}, {"rows_before", lowered.rows_before}, {"rows", lowered.rows}});
  log_warning(str("length ", lowered.length, ": ", counted(lowered.rows, "row"),
                  " at once instead of ", lowered.rows_before, " from here on (", lowered.reason,
                  ")"));
}

void RunLog::spike(const TrainingState& state, const RefusedBatch& refused,
                   const std::string& reason) {
  event("spike", state, reason, refused_fields(refused));
}

void RunLog::replanned(const TrainingState& state, int64_t was, const std::string& reason) {
  if (is_quiet_) return;
  config_.train.tokens = state.total.tokens;
  read_expectation(state);
  const auto tokens = [](int64_t count) { return format_count(static_cast<double>(count)); };
  event("replan", state, reason, {{"tokens", state.total.tokens}, {"was", was}});
  log_note(str("replan     ", tokens(state.total.tokens), " tokens instead of ", tokens(was), ": ",
               reason));
}

void RunLog::skipped(const TrainingState& state, const RefusedBatch& refused,
                     const std::string& reason) {
  if (is_quiet_) return;
  const Json fields = refused_fields(refused);
  event("skip", state, reason, fields);
  const auto shown_number = [&](const char* field) {
    return fields[field].is_null() ? std::string("not finite") : fields[field].dump();
  };
  log_warning(str("batch ", refused.batch, " skipped: ", reason, " (loss ", shown_number("loss"),
                  ", gradient norm ", shown_number("grad_norm"), ")"));
}

void RunLog::rolled_back(const TrainingState& state, const RefusedBatch& refused,
                         const std::string& reason, int64_t from_step,
                         const std::optional<std::filesystem::path>& checkpoint) {
  if (is_quiet_) return;
  Json fields = refused_fields(refused);
  fields["from_step"] = from_step;
  fields["checkpoint"] = checkpoint ? Json(checkpoint->string()) : Json(nullptr);
  fields["passed_over"] = state.guard.skipped_batches;
  event("rollback", state, reason, fields);
  log_warning(str("batch ", refused.batch, ": ", reason, "; back from step ", from_step,
                  " to step ", state.step, ", the batch is passed over"));
}

void RunLog::no_held_out_text() const {
  if (is_quiet_) return;
  const bool is_asked_for = config_.data.eval_fraction > 0;
  log_warning(str("no held-out text (",
                  is_asked_for ? "data.train is one short text, or the same one again and "
                                 "again; give other text in data.eval"
                               : "data.eval_fraction is 0 and data.eval is not given",
                  "): evaluations are skipped"));
}

void RunLog::eval_loss_not_finite(const TrainingState& state) const {
  if (is_quiet_) return;
  log_warning(
      str("the held-out loss after step ", state.step, " is not finite, though the weights are"));
}

void RunLog::signalled(const TrainingState& state, int signal) {
  event("signal", state, str("signal ", signal));
}

void RunLog::sync() {
  if (!is_quiet_) files_->sync();
}

void RunLog::saved(const TrainingState& saved, double seconds) {
  if (is_quiet_) return;
  event("save", saved, "",
        {{"checkpoint", run_.checkpoint(saved.step).string()},
         {"seconds", seconds},
         {"peak_memory", peak_memory(device_of(config_))}});
  if (config_.checkpoint.async) time_left_.set_writing(seconds);
}

void RunLog::save_failed(const TrainingState& lost, const std::string& reason, bool goes_on) {
  if (is_quiet_) return;
  event("save_failed", lost, reason, {{"checkpoint", run_.checkpoint(lost.step).string()}});
  if (goes_on)
    log_warning(str("checkpoint of step ", lost.step, " not saved, the run goes on: ", reason));
}

bool RunLog::outlives_full_disk() const {
  return config_.checkpoint.on_save_error == SaveErrorPolicy::kContinue;
}

void RunLog::running(const TrainingState& state) {
  if (is_quiet_) return;
  status_written_ = Clock::now();
  try {
    write_status(run_, "running", state, std::nullopt);
    status_is_late_ = false;
  } catch (const Error& error) {
    if (!outlives_full_disk()) throw;
    run_.require_there();
    if (!status_is_late_) log_warning(str(error.what(), "; the run goes on"));
    status_is_late_ = true;
  }
}

void RunLog::refresh_status(const TrainingState& state) {
  if (seconds_since(status_written_) > 10) running(state);
}

void RunLog::summarize(const TrainingState& state, std::optional<int64_t> saved_step,
                       Stop why) const {
  if (is_quiet_) return;
  EndReport report = evaluations(saved_step);
  report.steps = state.step;
  report.tokens = state.tokens;
  report.loss = state.loss;
  if (why == Stop::kEarlyStop) report.early_stop = early_stop_reason(config_, state);
  report.training = time_left_.training_seconds();
  report.evaluating = time_left_.evaluating_seconds();
  report.saving = time_left_.saving_seconds();
  report.elapsed = seconds_since(started_);
  log_note(end_summary(report));
  if (ends_run(why)) log_note(next_after(why, report));
}

std::string RunLog::ended(const TrainingState& state, const RunEnd& end, bool is_part) {
  if (is_quiet_) return {};
  event("end", state, end.reason,
        {{"trained_seconds", state.elapsed - elapsed_at_begin_},
         {"waited_seconds", seconds_waited_},
         {"peak_memory", peak_memory(device_of(config_))}});
  files_->sync();
  if (end.done && !is_part) write_model_cards(run_);
  if (!end.done && !is_part) {
    log_note(str("stopped by ", end.reason, " after step ", state.step,
                 "; go on with: lmtrain resume ", shell_quoted(run_.path().string())));
  }
  return write_status(run_, end.done ? "done" : "stopped", state, end.exit_code);
}

std::string RunLog::failed(const TrainingState& state, const Failure& failure,
                           const Json& changed_settings) {
  if (is_quiet_) return {};
  try {
    if (!files_) files_.emplace(run_, state, /*tensorboard=*/false);
    if (!is_started_ && !changed_settings.empty())
      event("resume", state, "the run has failed at its start", {{"changed", changed_settings}});
    event("end", state, failure.message);
    return write_failed_status(run_, state, failure);
  } catch (const Error& error) {
    log_warning(error.what());
    return "";
  }
}

}  // namespace lmtrain
