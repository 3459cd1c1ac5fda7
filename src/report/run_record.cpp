#include "report/run_record.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <exception>
#include <limits>
#include <thread>

#include "base/error.h"
#include "base/examine.h"
#include "base/processors.h"
#include "base/read_file.h"
#include "base/text.h"
#include "base/threads.h"
#include "config/digest.h"
#include "formats/strict_json.h"

namespace lmtrain {
namespace {

using Json = nlohmann::json;

void read_settings_of(RunRecord& run, const std::filesystem::path& file) {
  const std::string text = read_file(file);
  Json settings = sealed_json(text);
  if (!settings.is_object()) {
    run.notes.push_back(
        "config.json is damaged: it is no JSON object, so the settings are not shown");
    return;
  }
  if (seal_of(text) == Seal::kBroken)
    run.notes.push_back("config.json was changed after lmtrain wrote it: its digest does not fit");
  settings.erase(kDigestKey);
  settings.erase("identity");
  run.settings = std::move(settings);
}

void read_status_of(RunRecord& run, const std::filesystem::path& file) {
  if (!is_there(file)) return;
  Json status;
  try {
    status = parse_strict_json(read_file(file), {});
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::kIo) throw;
  }
  if (!status.is_object()) {
    run.notes.push_back("status.json is damaged, so the state of the run is not known");
    return;
  }
  const auto text = [&](const char* key) {
    return status.contains(key) && status[key].is_string() ? status[key].get<std::string>() : "";
  };
  run.state = text("state");
  run.updated = text("updated");
  run.checkpoint = text("checkpoint");
}

double mean_of_last(const std::vector<double>& losses) {
  const auto count = static_cast<size_t>(
      std::max(1.0, std::round(kLossShare * static_cast<double>(losses.size()))));
  double sum = 0;
  int64_t num_finite = 0;
  for (size_t i = losses.size() - std::min(count, losses.size()); i < losses.size(); ++i) {
    if (!std::isfinite(losses[i])) continue;
    sum += losses[i];
    ++num_finite;
  }
  return num_finite > 0 ? sum / static_cast<double>(num_finite)
                        : std::numeric_limits<double>::quiet_NaN();
}

std::string best_checkpoint_of(const RunRecord& run) {
  const EvaluationColumn* column = evaluation_of(run, "eval_loss");
  std::string best;
  double lowest = std::numeric_limits<double>::infinity();
  for (size_t i = 0; column != nullptr && i < column->value.size(); ++i) {
    if (!(column->value[i] < lowest)) continue;
    const std::filesystem::path folder =
        run.folder / "checkpoints" / printed("step_%08.0f", column->step[i]);
    if (!is_folder(folder)) continue;
    lowest = column->value[i];
    best = folder.string();
  }
  return best;
}

}  // namespace

RunRecord read_run_record(const RunFiles& files, size_t most_buckets) {
  RunRecord run;
  run.folder = files.folder;
  read_settings_of(run, files.config);
  read_status_of(run, files.status);
  run.events = read_run_events(files.events);
  MetricsSeries series = read_metrics_series(files.metrics);
  const UpdateColumns& updates = series.updates;
  run.curves = curves_of(updates, most_buckets);
  run.evaluations = std::move(series.evaluations);
  run.expected = read_expected_curve(expected_curve_file(run.folder));
  run.best_checkpoint = best_checkpoint_of(run);
  run.loss = mean_of_last(updates.loss);
  if (updates.size() > 0) {
    run.step = updates.step.back();
    run.tokens = updates.tokens.back();
    run.elapsed = updates.elapsed.back();
  } else {
    run.notes.push_back("there is no update in metrics.jsonl yet");
  }
  return run;
}

std::vector<RunRecord> read_run_records(const std::vector<RunFiles>& files, size_t most_buckets) {
  std::vector<RunRecord> runs(files.size());
  std::vector<std::exception_ptr> errors(files.size());
  std::atomic<size_t> next = 0;
  const auto work = [&] {
    for (size_t i; (i = next++) < files.size();) {
      try {
        runs[i] = read_run_record(files[i], most_buckets);
      } catch (...) {
        errors[i] = std::current_exception();
      }
    }
  };
  const size_t num_threads = std::min(files.size(), static_cast<size_t>(available_processors()));
  std::vector<std::thread> threads;
  threads.reserve(num_threads);
  for (size_t i = 1; i < num_threads; ++i) {
    try {
      threads.push_back(start_thread(work));
    } catch (const Error&) {  // those that are there do the work
      break;
    }
  }
  work();
  for (std::thread& thread : threads) thread.join();
  for (const std::exception_ptr& error : errors)
    if (error) std::rethrow_exception(error);
  return runs;
}

const EvaluationColumn* evaluation_of(const RunRecord& run, const std::string& key) {
  for (const EvaluationColumn& column : run.evaluations)
    if (column.key == key) return &column;
  return nullptr;
}

std::optional<double> final_held_out_loss(const RunRecord& run) {
  const EvaluationColumn* column = evaluation_of(run, "eval_loss");
  if (column == nullptr || column->value.empty() || !std::isfinite(column->value.back()))
    return std::nullopt;
  return column->value.back();
}

}  // namespace lmtrain
