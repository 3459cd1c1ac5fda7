#include "training/verify_resume.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <utility>

#include "base/elapsed.h"
#include "base/error.h"
#include "base/examine.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/stop.h"
#include "base/temporary_folder.h"
#include "base/text.h"
#include "base/utf8.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/state.h"
#include "checkpoint/trial.h"
#include "distributed/orders.h"
#include "formats/manifest.h"
#include "formats/safetensors.h"
#include "formats/strict_json.h"
#include "formats/tensor_files.h"
#include "runlog/data_files.h"
#include "training/copy_checkpoint.h"
#include "training/load_run.h"
#include "training/preflight.h"
#include "training/resolve.h"
#include "training/trainer.h"

namespace lmtrain {
namespace {

namespace fs = std::filesystem;

// The most checkpoints at a time: the end of one training, the middle and the end of the other.
constexpr uint64_t kCheckpointsAtOnce = 3;

// Says where both trainings begin.
struct Beginning {
  std::optional<int64_t> checkpoint;
  int64_t step = 0;
  int64_t seed = 0;
  int64_t steps_left = 0;  // at least, if the guard skips no batch
};

int64_t steps_left(const Config& config, const PreparedData& data, TrainingState state) {
  if (config.train.steps) return *config.train.steps - state.step;
  if (config.train.epochs) {
    adapt_state(state, config);
    const TokenShard shard(data.train_shard, /*verify_tokens=*/false);
    return BatchOrder(order_spec(config, data, shard, state)).num_batches() - state.batch;
  }
  // A step has batch.tokens targets at most.
  const int64_t tokens = *config.train.tokens - state.tokens;
  return (tokens + config.batch.tokens - 1) / config.batch.tokens;
}

// Copies the checkpoint in which the two ways begin to `copy`, unless they begin at the start.
Beginning begin(const Config& config, const PreparedData& data, const RunFolder& run,
                const RunFolder& copy) {
  const std::optional<int64_t> newest = newest_valid_checkpoint(run, /*skip_training_state=*/false);
  for (const int64_t step : run.checkpoint_steps()) {
    if (!newest || step > *newest) continue;
    try {
      if (step < *newest) verify_checkpoint(run, step, /*skip_training_state=*/false);
      const TrainingState state = read_state(run.checkpoint(step));
      const int64_t left = steps_left(config, data, state);
      if (left < 2) continue;
      require_own_checkpoint(run, step);
      require_same_data(run, run.checkpoint(step), read_manifest(run.checkpoint(step)).fingerprint,
                        config, data.fingerprint);
      copy_checkpoint(run, step, copy);
      return {step, step, state.seed, left};
    } catch (const Error& error) {
      const bool removed = !is_there(run.checkpoint(step));  // by the process that trains the run
      if (!removed && error.kind() != ErrorKind::kCheckpoint) throw;
      log_warning(str("checkpoint passed over: ", error.what()));
    }
  }
  TrainingState first;
  first.planned = first.total = run_length(config.train, 0);
  return {std::nullopt, 0, config.seed, steps_left(config, data, first)};
}

// Trains the runs that are compared, all with one seed.
class ComparedTraining {
 public:
  ComparedTraining(const Config& config, const PreparedData& data, int64_t seed,
                   Processes& processes)
      : config_(config_of_seed(config, seed)), data_(data), seed_(seed), processes_(processes) {}

  // Trains with a new Trainer from a checkpoint in the folder, or from the beginning, up to
  // `last_step`. Returns the step that it has reached. `keep` checkpoints stay.
  int64_t train(const RunFolder& folder, std::optional<int64_t> checkpoint, int64_t last_step,
                int64_t keep) const {
    Config config = config_;
    config.checkpoint.keep = keep;
    lmtrain::create_directories(folder.path());
    broadcast_order(processes_, AttemptOrder{seed_, checkpoint, /*is_trial=*/false, /*max_time=*/{},
                                             last_step});
    Trainer trainer(std::move(config), data_, folder, checkpoint, /*trial=*/{}, processes_);
    const int code = trainer.run({.last_step = last_step}).exit_code;
    if (code > 128) throw StopRequested{code - 128};
    return trainer.state().step;
  }

 private:
  Config config_;
  const PreparedData& data_;
  int64_t seed_;
  Processes& processes_;
};

// Returns the same name for each check of a run, so that the next check removes what a killed one
// has left.
std::string scratch_name(const RunFolder& run) {
  const fs::path path = absolute_path(run.path());
  std::string name = run.path().filename().string().substr(0, 200);  // a longer one has no room
  name.resize(valid_utf8_prefix(name));
  return str(".", name, ".verify-",
             hash128(str(path.string(), "\n", ::getuid())).hex().substr(0, 12));
}

// ---- The comparison ----

// Holds a run, the step of its newest checkpoint, and its name in texts for people.
struct ComparedRun {
  RunFolder folder;
  int64_t step = 0;
  std::string name;
};

using Tensors = std::map<std::string, TensorView>;

// Returns whether a field of a state or of metrics depends on the clock.
bool is_time(std::string_view field) {
  constexpr std::array<std::string_view, 6> kTimes = {
      "elapsed",      "tokens_per_second", "mfu",
      "slowest_rank", "slowest_seconds",   "communication_share"};
  return std::find(kTimes.begin(), kTimes.end(), field) != kTimes.end();
}

std::vector<nlohmann::json> lines_of(const RunFolder& run, int64_t first_step) {
  std::vector<nlohmann::json> lines;
  for_each_json_line(run.metrics(), [&](const nlohmann::json& line, uint64_t) {
    if (line.contains("step") && line["step"] >= first_step) lines.push_back(line);
  });
  return lines;
}

std::string shape_text(const TensorView& tensor) {
  return str(dtype_name(tensor.dtype), " ", nlohmann::json(tensor.shape).dump());
}

// Returns the index of an element as text, "[3, 17]"; empty for a scalar.
std::string index_text(const std::vector<int64_t>& shape, size_t element) {
  std::string text;
  for (size_t i = shape.size(); i > 0; --i) {
    const auto length = static_cast<size_t>(shape[i - 1]);
    text = str(element % length, text.empty() ? "" : ", ", text);
    element /= length;
  }
  return text.empty() ? "" : str("[", text, "]");
}

// Returns "0.0123 (0x3c498a72)": some bits show in no decimal.
std::string value_text(const TensorView& tensor, size_t element) {
  const size_t size = dtype_size(tensor.dtype);
  const std::string_view bytes = tensor.bytes.substr(element * size, size);
  const std::string bits = "0x" + to_hex(std::string(bytes.rbegin(), bytes.rend()));
  if (tensor.dtype != DType::kF32) return bits;
  float value = 0;
  std::memcpy(&value, bytes.data(), sizeof value);
  return str(printed("%.9g", static_cast<double>(value)), " (", bits, ")");
}

class Comparison {
 public:
  Comparison(const ComparedRun& a, const ComparedRun& b) : a_(a), b_(b) {}

  std::vector<std::string> found;

  void checkpoints() {
    if (a_.step != b_.step) {
      add("the last step", str(a_.step), str(b_.step));
      return;
    }
    const fs::path a = a_.folder.checkpoint(a_.step), b = b_.folder.checkpoint(b_.step);
    tensors("the weight ", TensorFiles(a).tensors(), TensorFiles(b).tensors());
    const SafetensorsFile optimizer_a(a / kOptimizerFile), optimizer_b(b / kOptimizerFile);
    tensors("the optimizer's ", optimizer_a.tensors(), optimizer_b.tensors());
    fields("the state's ", nlohmann::json::parse(state_to_text(read_state(a))),
           nlohmann::json::parse(state_to_text(read_state(b))));
  }

  void metrics(int64_t first_step) {
    const std::vector<nlohmann::json> a = lines_of(a_.folder, first_step);
    const std::vector<nlohmann::json> b = lines_of(b_.folder, first_step);
    for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
      const std::string step = a[i].value("step", nlohmann::json()).dump();
      if (fields(str("in metrics.jsonl, step ", step, ", "), a[i], b[i])) return;
    }
    if (a.size() != b.size())
      add("the number of lines of metrics.jsonl", str(a.size()), str(b.size()));
  }

 private:
  void add(const std::string& what, const std::string& in_a, const std::string& in_b) {
    found.push_back(str(what, " is ", in_a, " ", a_.name, " and ", in_b, " ", b_.name));
  }

  void tensors(const char* part, const Tensors& a, const Tensors& b) {
    for (const auto& [name, tensor] : a) {
      const auto other = b.find(name);
      if (other == b.end()) return add(str(part, name), "there", "missing");
      if (differs(str(part, name), tensor, other->second)) return;
    }
    for (const auto& [name, tensor] : b) {
      if (!a.contains(name)) return add(str(part, name), "missing", "there");
    }
  }

  bool differs(const std::string& name, const TensorView& a, const TensorView& b) {
    if (a.dtype != b.dtype || a.shape != b.shape) {
      add(name, shape_text(a), shape_text(b));
      return true;
    }
    if (a.bytes == b.bytes) return false;
    const size_t size = dtype_size(a.dtype);
    size_t element = 0;
    while (a.bytes.substr(element * size, size) == b.bytes.substr(element * size, size)) ++element;
    add(str(name, index_text(a.shape, element)), value_text(a, element), value_text(b, element));
    return true;
  }

  // Returns whether two objects differ in a field that is no time.
  bool fields(const std::string& part, nlohmann::json a, nlohmann::json b) {
    for (nlohmann::json* object : {&a, &b}) {
      for (auto field = object->begin(); field != object->end();)
        field = is_time(field.key()) ? object->erase(field) : std::next(field);
    }
    if (a == b) return false;
    const nlohmann::json::json_pointer first(
        nlohmann::json::diff(a, b).at(0).at("path").get<std::string>());
    const auto value = [&](const nlohmann::json& json) {
      return json.contains(first) ? json.at(first).dump() : std::string("missing");
    };
    add(str(part, first.to_string().substr(1)), value(a), value(b));
    return true;
  }

  const ComparedRun& a_;
  const ComparedRun& b_;
};

// Returns where two runs differ that should be equal to the bit, in words: the first difference of
// the weights, the optimizer, the state and the lines of metrics.jsonl. Times are left out, since
// they depend on how fast the machine was. Lines of steps before `first_step` are not compared.
// Empty: the runs are equal. The checkpoints must be whole. Throws Error(kIo), Error(kData).
std::vector<std::string> run_differences(const ComparedRun& a, const ComparedRun& b,
                                         int64_t first_step) {
  Comparison comparison(a, b);
  comparison.checkpoints();
  comparison.metrics(first_step);
  return std::move(comparison.found);
}

}  // namespace

Config config_of_check(Config config) {
  config.train.max_time.reset();
  config.checkpoint.every = {};
  config.checkpoint.keep_every.reset();
  config.checkpoint.keep_best = 0;
  config.log.samples.reset();
  config.eval.early_stop.reset();
  config.checkpoint.on_save_error = SaveErrorPolicy::kStop;
  config.log.tensorboard = false;
  config.log.prometheus.reset();
  if (config.eval.every.unit == TrainingDuration::Unit::kSeconds) config.eval.every = {};
  return config;
}

ResumeCheck verify_resume(const Config& config, const PreparedData& data, const RunFolder& run,
                          int64_t steps, Processes& processes,
                          const std::function<void(const fs::path&)>& after_interruption) {
  const auto begun = std::chrono::steady_clock::now();
  const ScratchFolder scratch({absolute_path(run.path()).parent_path(), temporary_parent()},
                              scratch_name(run), kCheckpointsAtOnce * checkpoint_bytes(config));
  const RunFolder straight(scratch.path() / "straight", run.identity());
  const RunFolder interrupted(scratch.path() / "interrupted", run.identity());
  for (const RunFolder& folder : {straight, interrupted})
    lmtrain::create_directories(folder.checkpoints());

  const Beginning beginning = begin(config, data, run, straight);
  if (beginning.steps_left < 2)
    throw Error(ErrorKind::kUsage, "the run has fewer than two steps, so none can be interrupted");
  ResumeCheck check;
  check.from = beginning.step;
  check.steps = std::min(steps, beginning.steps_left);
  check.interrupted_after = check.steps / 2;
  if (check.steps < steps) {
    log_note(str("verifying ", counted(check.steps, "step"), " instead of ", steps,
                 ": the run has no more after step ", check.from,
                 ", its newest checkpoint with two steps or more to go"));
  }
  const ComparedTraining training(config, data, beginning.seed, processes);
  copy_metrics(straight, interrupted);

  log_note(str("verifying ", check.steps, " steps after step ", check.from, ": straight on"));
  const int64_t last = training.train(straight, beginning.checkpoint, check.from + check.steps,
                                      /*keep=*/2);
  if (beginning.checkpoint) {
    publish_rename(straight.checkpoint(check.from), interrupted.checkpoint(check.from));
  }
  log_note(str("verifying: up to a checkpoint after ", counted(check.interrupted_after, "step")));
  const int64_t middle = training.train(interrupted, beginning.checkpoint,
                                        check.from + check.interrupted_after, /*keep=*/1);
  if (after_interruption) after_interruption(interrupted.checkpoint(middle));
  verify_checkpoint(interrupted, middle, /*skip_training_state=*/false);
  log_note("verifying: on from there");
  const int64_t resumed = training.train(interrupted, middle, check.from + check.steps, /*keep=*/1);

  check.differences = run_differences({straight, last, "straight on"},
                                      {interrupted, resumed, "with a resume"}, check.from);
  check.seconds = seconds_since(begun);
  return check;
}

}  // namespace lmtrain
