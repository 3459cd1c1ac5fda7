#include "report/run_record.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <exception>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/error.h"
#include "base/examine.h"
#include "base/machine.h"
#include "base/read_file.h"
#include "base/text.h"
#include "base/utf8.h"
#include "config/digest.h"
#include "formats/strict_json.h"

namespace lmtrain {
namespace {

using Json = nlohmann::json;

constexpr size_t kLongestText = 300;  // bytes

std::string text_at(const Json& line, const char* key) {
  const auto found = line.find(key);
  return found != line.end() && found->is_string() ? found->get<std::string>() : "";
}

std::string shortened(const std::string& text) {
  return text.size() <= kLongestText ? text : str(utf8_prefix(text, kLongestText), "...");
}

// A number as the line has it; empty if the field is none.
std::string number_text(const Json& line, const char* key) {
  const auto found = line.find(key);
  return found != line.end() && found->is_number() ? found->dump() : "";
}

// "name value" for each field that is a number.
void add_numbers(std::vector<std::string>& parts, const Json& line,
                 std::initializer_list<std::pair<const char*, const char*>> fields) {
  for (const auto& [key, name] : fields)
    if (const std::string value = number_text(line, key); !value.empty())
      parts.push_back(str(name, " ", value));
}

// "optimizer.lr from 0.003 to 0.001" for each setting that a resume has changed.
void add_changes(std::vector<std::string>& parts, const Json& line) {
  const auto changed = line.find("changed");
  if (changed == line.end() || !changed->is_array()) return;
  const auto value = [](const Json& change, const char* key) {
    const auto found = change.find(key);
    return found == change.end() ? "?"
                                 : found->dump(-1, ' ', false, Json::error_handler_t::replace);
  };
  for (const Json& change : *changed) {
    if (!change.is_object()) continue;
    parts.push_back(
        str(text_at(change, "key"), " from ", value(change, "was"), " to ", value(change, "is")));
  }
}

std::string describe(const std::string& kind, const Json& line) {
  std::vector<std::string> parts;
  if (const std::string reason = text_at(line, "reason"); !reason.empty()) parts.push_back(reason);
  add_numbers(parts, line,
              {{"from_step", "from step"},
               {"skipped_batch", "batch"},
               {"seq_len", "length"},
               {"loss", "loss"},
               {"grad_norm", "gradient norm"},
               {"loss_scale", "loss scale"},
               {"rows_before", "rows before"},
               {"rows", "rows now"},
               {"seed", "seed"},
               {"trial_step", "trial's step"},
               {"eval_loss", "held-out loss"}});
  if (const std::string tensor = text_at(line, "tensor"); !tensor.empty())
    parts.push_back("tensor " + tensor);
  add_changes(parts, line);
  if (kind == "rollback") {
    if (const std::string step = number_text(line, "step"); !step.empty())
      parts.push_back("back to step " + step);
  }
  return shortened(join(parts, ", "));
}

// A rollback stands where the run was when it went back.
double place_of(const std::string& kind, const Json& line) {
  const std::optional<double> from =
      kind == "rollback" ? number_at(line, "from_step") : std::nullopt;
  return from ? *from : number_at(line, "step").value_or(0);
}

bool is_routine(const std::string& kind, const Json& line) {
  return kind == "save" || kind == "sample" || kind == "first_step" ||
         (kind == "end" && text_at(line, "reason") == "done") ||
         (kind == "start" && text_at(line, "reason").empty() && !line.contains("changed"));
}

// Leaves out the middle of each kind that has more than kMostEventsOfAKind.
void thin_out(RunEvents& events) {
  std::map<std::string, size_t> total, seen;
  for (const RunEvent& event : events.events) ++total[event.kind];
  std::erase_if(events.events, [&](const RunEvent& event) {
    const size_t index = seen[event.kind]++;
    return index >= kMostEventsOfAKind / 2 && index + kMostEventsOfAKind / 2 < total[event.kind];
  });
}

// The samples of one file, each step and prompt once.
class SampleList {
 public:
  void add(SampleEvent sample) {
    const auto [at, is_new] = index_.try_emplace({sample.step, sample.prompt}, samples_.size());
    if (is_new) {
      samples_.push_back(std::move(sample));
    } else {
      samples_[at->second] = std::move(sample);
    }
  }
  std::vector<SampleEvent> take() {
    std::stable_sort(samples_.begin(), samples_.end(),
                     [](const SampleEvent& a, const SampleEvent& b) { return a.step < b.step; });
    if (samples_.size() > kMostEventsOfAKind) {
      const auto half = static_cast<ptrdiff_t>(kMostEventsOfAKind / 2);
      samples_.erase(samples_.begin() + half, samples_.end() - half);
    }
    return std::move(samples_);
  }

 private:
  std::vector<SampleEvent> samples_;
  std::map<std::pair<double, std::string>, size_t> index_;
};

}  // namespace

RunEvents read_run_events(const std::filesystem::path& file) {
  RunEvents events;
  SampleList samples;
  for_each_json_line(file, [&](const Json& line, uint64_t) {
    const std::string kind = text_at(line, "event");
    if (kind.empty()) return;
    ++events.counts[kind];
    if (const std::string device = text_at(line, "device"); !device.empty()) events.device = device;
    if (const std::string precision = text_at(line, "precision"); !precision.empty())
      events.precision = precision;
    if (const auto memory = number_at(line, "peak_memory"))
      events.peak_memory = std::max(*memory, events.peak_memory.value_or(0));
    if (kind == "sample")
      samples.add(
          {number_at(line, "step").value_or(0), text_at(line, "prompt"), text_at(line, "text")});
    if (is_routine(kind, line)) return;
    events.events.push_back(
        {text_at(line, "time"), kind, place_of(kind, line), describe(kind, line)});
  });
  thin_out(events);
  events.samples = samples.take();
  return events;
}

namespace {

void read_settings_of(RunRecord& run, const std::filesystem::path& file) {
  const std::string text = read_file(file);
  Json settings = shallow_json(text);
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
  run.state = text_at(status, "state");
  run.updated = text_at(status, "updated");
  run.checkpoint = text_at(status, "checkpoint");
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
    } catch (const Error&) {  // the existing threads do the work
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

namespace {

// The last `count` components, or all there are.
std::string last_components(const std::filesystem::path& folder, size_t count) {
  std::filesystem::path path = folder, label;
  for (size_t i = 0; i < count && path.has_filename(); ++i) {
    label = label.empty() ? path.filename() : path.filename() / label;
    path = path.parent_path();
  }
  return label.empty() ? folder.string() : label.string();
}

}  // namespace

std::vector<std::string> run_labels(const std::vector<std::filesystem::path>& folders) {
  std::vector<size_t> lengths(folders.size(), 1);
  std::vector<std::string> labels(folders.size());
  for (bool changed = true; changed;) {
    changed = false;
    std::map<std::string, int> uses;
    for (size_t i = 0; i < folders.size(); ++i) {
      labels[i] = last_components(folders[i], lengths[i]);
      ++uses[labels[i]];
    }
    for (size_t i = 0; i < folders.size(); ++i) {
      if (uses[labels[i]] < 2) continue;
      const std::string longer = last_components(folders[i], lengths[i] + 1);
      if (longer == labels[i]) continue;
      ++lengths[i];
      changed = true;
    }
  }
  for (std::string& label : labels) label = replacing_malformed(label);
  return labels;
}

}  // namespace lmtrain
