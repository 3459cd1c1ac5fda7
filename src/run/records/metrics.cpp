#include "run/records/metrics.h"

#include <unistd.h>

#include <array>

#include "base/error.h"
#include "base/files/examine.h"
#include "base/terminal/log.h"
#include "base/text.h"
#include "formats/json_number.h"

namespace lmtrain {
namespace {

using Json = nlohmann::ordered_json;

// JSON of text that may hold bytes that are no UTF-8 (file names do): they are replaced, never
// thrown at.
std::string dump_line(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string host_name() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "unknown";
}

// A crash of the machine may leave half a line; what follows begins on a line of its own.
void end_torn_line(const std::filesystem::path& path) {
  if (!is_there(path)) return;
  const MappedFile file(path);
  if (!file.bytes().empty() && file.bytes().back() != '\n') append_file(path, "\n", /*sync=*/false);
}

}  // namespace

RunLog::RunLog(const RunFolder& run, const TrainingState& state, bool tensorboard, bool patient)
    : run_(run),
      patient_(patient),
      metrics_(run.metrics(), patient),
      events_(run.events(), patient) {
  end_torn_line(run.events());
  const bool resumed = state.step > 0;
  if (tensorboard)
    tensorboard_.emplace(run.tensorboard(), resumed ? std::optional(state.step) : std::nullopt);
}

void RunLog::append_metrics(const Json& line) { metrics_.append(dump_line(line)); }

void RunLog::update(const UpdateMetrics& metrics) {
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

void RunLog::evaluation(int64_t step, int64_t tokens, const EvalResult& result) {
  append_metrics({{"step", step},
                  {"tokens", tokens},
                  {"eval_loss", finite_or_null(result.loss())},
                  {"eval_perplexity", finite_or_null(result.perplexity())},
                  {"eval_bits_per_byte", finite_or_null(result.bits_per_byte())}});
  const std::array<Scalar, 2> scalars = {
      {{"eval/loss", result.loss()}, {"eval/bits_per_byte", result.bits_per_byte()}}};
  write_scalars(scalars, step);
}

void RunLog::write_scalars(std::span<const Scalar> scalars, int64_t step) {
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

void RunLog::sync() {
  metrics_.sync();
  events_.sync();
}

void RunLog::event(const std::string& name, const TrainingState& state, const std::string& reason,
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
      {"host", host_name()},
      {"updated", utc_timestamp()}};
  std::string line = dump_line(status);
  write_file_atomic(run.status(), line + "\n");
  return line;
}

}  // namespace lmtrain
