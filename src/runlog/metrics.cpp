#include "runlog/metrics.h"

#include <unistd.h>

#include <utility>

#include "base/error.h"
#include "base/examine.h"
#include "base/file.h"
#include "base/log.h"
#include "base/text.h"
#include "config/digest.h"
#include "formats/strict_json.h"

namespace lmtrain {
namespace {

using Json = nlohmann::ordered_json;

// JSON of text that may hold bytes that are no UTF-8 (file names do): they are replaced, never
// thrown at.
std::string dump_line(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

// A figure of an evaluation: its key in metrics.jsonl, and its tag in TensorBoard.
struct EvalFigure {
  std::string key, tag;
  double value = 0;
};

std::vector<EvalFigure> figures_of(const Evaluation& evaluation,
                                   const std::vector<TaskResult>& tasks) {
  std::vector<EvalFigure> figures;
  const auto add = [&](const char* name, const std::string& part, double value) {
    figures.push_back({str("eval_", name, part), str("eval/", name, part), value});
  };
  const auto add_all = [&](const std::string& part, const EvalResult& result) {
    add("loss", part, result.loss());
    add("perplexity", part, result.perplexity());
    add("bits_per_byte", part, result.bits_per_byte());
  };
  add_all("", evaluation.all);
  for (const EvalPart& set : evaluation.sets) add_all("/" + set.name, set.result);
  for (const EvalPart& length : evaluation.lengths)
    add("loss", "/" + length.name, length.result.loss());
  const auto add_of_task = [&](const std::string& key, double value) {
    figures.push_back({key, key, value});
  };
  for (const TaskResult& task : tasks) {
    const std::string prefix = "task/" + task.name;
    add_of_task(prefix + "/accuracy", task.accuracy.value);
    add_of_task(prefix + "/accuracy_norm", task.accuracy_norm.value);
    add_of_task(prefix + "/centred", task.centred.value);
    add_of_task(prefix + "/bits_per_byte", task.bits_per_byte.value);
  }
  if (!tasks.empty()) add_of_task("task/centred_mean", centred_mean(tasks).value);
  return figures;
}

// A crash of the machine may leave half a line. Ends it, so that the next event begins a new line.
void end_torn_line(const std::filesystem::path& path) {
  if (!is_there(path)) return;
  const MappedFile file(path);
  if (!file.bytes().empty() && file.bytes().back() != '\n') append_file(path, "\n", /*sync=*/false);
}

}  // namespace

LineFile::LineFile(std::filesystem::path path, bool patient, std::string kept)
    : path_(std::move(path)), patient_(patient), kept_(std::move(kept)) {}

void LineFile::append(const std::string& line) {
  const bool is_late = !kept_.empty();
  kept_ += line + "\n";
  try {
    append_file(path_, kept_, /*sync=*/false);
    kept_.clear();
  } catch (const Error& error) {
    if (!patient_ || !is_folder(path_.parent_path())) throw;
    if (!is_late)
      log_warning(str(error.what(), "; its lines are kept in memory until they can be written"));
  }
}

void LineFile::sync() {
  append_file(path_, kept_, /*sync=*/false);
  kept_.clear();  // they are in the file, also where it cannot be synced
  append_file(path_, "", /*sync=*/true);
}

LogFiles::LogFiles(const RunFolder& run, const TrainingState& state, bool tensorboard, bool patient,
                   std::string kept_events)
    : run_(run),
      patient_(patient),
      metrics_(run.metrics(), patient),
      events_(run.events(), patient, std::move(kept_events)) {
  end_torn_line(run.events());
  if (!tensorboard) return;
  try {
    // Values that an earlier process has written for later steps must not count any more.
    const bool is_first = state.step == 0 && list_folder_if_there(run.tensorboard()).empty();
    tensorboard_.emplace(run.tensorboard(), is_first ? std::nullopt : std::optional(state.step));
  } catch (const Error& error) {
    if (!patient_ || error.kind() != ErrorKind::kIo) throw;
    run_.require_there();
    log_warning(str(error.what(), "; nothing is written for TensorBoard until a resume"));
  }
}

std::optional<double> model_flops_utilization(double flops_per_second, int num_devices,
                                              std::optional<double> peak_of_one) {
  if (!peak_of_one) return std::nullopt;
  return flops_per_second / (num_devices * *peak_of_one);
}

void LogFiles::append_metrics(const Json& line) { metrics_.append(dump_line(line)); }

void LogFiles::update(const UpdateMetrics& metrics) {
  Json line = {{"step", metrics.step},
               {"tokens", metrics.tokens},
               {"loss", finite_or_null(metrics.loss)},
               {"grad_norm", finite_or_null(metrics.grad_norm)},
               {"lr", metrics.lr},
               {"seq_len", metrics.seq_len},
               {"tokens_per_second", finite_or_null(metrics.tokens_per_second)},
               {"mfu", finite_or_null(metrics.mfu)},
               {"elapsed", metrics.elapsed}};
  std::vector<Scalar> scalars = {{"train/loss", metrics.loss},
                                 {"train/grad_norm", metrics.grad_norm},
                                 {"train/lr", metrics.lr},
                                 {"train/seq_len", static_cast<double>(metrics.seq_len)},
                                 {"train/tokens_per_second", metrics.tokens_per_second}};
  if (const std::optional<StepBalance>& balance = metrics.balance) {
    line["slowest_rank"] = balance->slowest_rank;
    line["slowest_seconds"] = balance->slowest_seconds;
    line["communication_share"] = finite_or_null(balance->communication_share);
    scalars.push_back({"train/communication_share", balance->communication_share});
  }
  append_metrics(line);
  write_scalars(scalars, metrics.step);
}

void LogFiles::evaluation(int64_t step, int64_t tokens, const Evaluation& evaluation,
                          const std::vector<TaskResult>& tasks) {
  const std::vector<EvalFigure> figures = figures_of(evaluation, tasks);
  Json line = {{"step", step}, {"tokens", tokens}};
  std::vector<Scalar> scalars;  // refer to the names above
  for (const EvalFigure& figure : figures) {
    line[figure.key] = finite_or_null(figure.value);
    scalars.push_back({figure.tag, figure.value});
  }
  append_metrics(line);
  write_scalars(scalars, step);
}

void LogFiles::write_scalars(std::span<const Scalar> scalars, int64_t step) {
  if (!tensorboard_) return;
  try {
    tensorboard_->scalars(scalars, step);
  } catch (const Error& error) {
    run_.require_there();
    if (is_there(run_.tensorboard())) {
      if (!patient_) throw;
      log_warning(str(error.what(), "; nothing more is written for TensorBoard until a resume"));
      tensorboard_.reset();
      return;
    }
    log_warning(str(run_.tensorboard().string(), " was deleted; it begins anew with step ", step));
    tensorboard_.emplace(run_.tensorboard());
    tensorboard_->scalars(scalars, step);
  }
}

void LogFiles::sync() {
  metrics_.sync();
  events_.sync();
}

void LogFiles::event(const std::string& name, const TrainingState& state, const std::string& reason,
                     const Json& fields) {
  events_.append(event_line(name, state, reason, fields));
}

std::string event_line(const std::string& name, const TrainingState& state,
                       const std::string& reason, const Json& fields) {
  Json line = {{"time", utc_timestamp()},
               {"event", name},
               {"step", state.step},
               {"batch", state.batch},
               {"reason", reason}};
  line.update(fields);
  return dump_line(line);
}

std::string write_status(const RunFolder& run, const std::string& state,
                         const TrainingState& training, std::optional<int> exit_code) {
  std::vector<int64_t> checkpoints = run.checkpoint_steps();
  std::erase_if(checkpoints, [&](int64_t step) {
    return step > training.step;
  });  // damaged ones that were passed over
  const std::string host = host_name();
  const Json status = {
      {"state", state},
      {"step", training.step},
      {"tokens", training.tokens},
      {"loss", finite_or_null(training.loss)},
      {"eval_loss", finite_or_null(training.eval_loss)},
      {"exit_code", exit_code ? Json(*exit_code) : Json(nullptr)},
      {"checkpoint",
       checkpoints.empty() ? Json(nullptr) : Json(run.checkpoint(checkpoints.front()).string())},
      {"pid", ::getpid()},
      {"host", host.empty() ? "unknown" : host},
      {"updated", utc_timestamp()}};
  std::string line = dump_line(status);
  write_file_atomic(run.status(), line + "\n");
  return line;
}

namespace {

std::string status_text(const RunFolder& run) {
  return is_file(run.status()) ? read_file(run.status()) : "";
}

}  // namespace

std::string status_state(const RunFolder& run) {
  const nlohmann::json json = shallow_json(status_text(run));
  return json.contains("state") && json["state"].is_string() ? json["state"].get<std::string>()
                                                             : "";
}

std::string done_status(const RunFolder& run, int64_t step, bool of_any_folder) {
  const std::string text = status_text(run);
  const nlohmann::json json = shallow_json(text);
  const auto says = [&](const char* key, const nlohmann::json& value) {
    return json.contains(key) && json[key] == value;
  };
  const bool said = says("state", "done") && says("step", step) &&
                    (of_any_folder || says("checkpoint", run.checkpoint(step).string()));
  return said ? first_line(text) : "";
}

std::string write_failed_status(const RunFolder& run, const TrainingState& training,
                                const Failure& failure) {
  const bool diverged = failure.exit_code == exit_code(ErrorKind::kNumeric);
  return write_status(run, diverged ? "diverged" : "failed", training, failure.exit_code);
}

}  // namespace lmtrain
