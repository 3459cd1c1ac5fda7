#include "training/preflight.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <initializer_list>

#include "base/error.h"
#include "base/examine.h"
#include "base/file.h"
#include "base/machine.h"
#include "base/text.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/retention.h"
#include "checkpoint/run_config.h"
#include "config/units.h"
#include "device/device.h"
#include "device/device_memory.h"
#include "device/slotted_memory.h"
#include "eval/evaluate_tasks.h"
#include "eval/samples.h"
#include "model/round_weights.h"
#include "runlog/prometheus.h"
#include "schedule/lr_schedule.h"
#include "schedule/run_clock.h"
#include "tokenizer/gguf_vocabulary.h"
#include "tokenizer/tokenizer.h"
#include "training/expected_loss.h"
#include "training/memory_plan.h"
#include "training/micro_batch_limits.h"
#include "training/resolve.h"

namespace lmtrain {
namespace {

namespace fs = std::filesystem;
using Warnings = std::vector<std::string>;

// ---- Errors, a function each ----

// Returns the folder itself, or the nearest existing one above it.
fs::path existing_part(const fs::path& folder) {
  fs::path there = folder;
  while (!is_there(there) && there.has_relative_path()) there = there.parent_path();
  return there;
}

void require_writable(const fs::path& folder) {
  const fs::path there = existing_part(folder);
  constexpr size_t kLongestName = 255;  // NAME_MAX of the usual file systems
  for (const fs::path& name : folder) {
    if (name.native().size() <= kLongestName) continue;
    throw Error(ErrorKind::kIo,
                str("cannot create the folder ", folder.string(), ": a name of ",
                    name.native().size(), " bytes is too long; give a shorter one with --run-dir"));
  }
  if (!is_folder(there)) {
    throw Error(ErrorKind::kIo, str("cannot create the folder ", folder.string(), ": ",
                                    there.string(), " is not a folder"));
  }
  if (const std::string why = why_not_writable(there); !why.empty()) {
    throw Error(ErrorKind::kIo,
                str("cannot write to ", there.string(), ": ", why,
                    "; check its permissions, or give another folder with --run-dir"));
  }
}

[[noreturn]] void refuse_weights(const std::string& what) {
  throw Error(ErrorKind::kConfig, str("parallel.shard is \"parameters\", and ", what,
                                      "; or set parallel.shard to \"optimizer\""));
}

void check_processes(const Preflight& start) {
  const ParallelConfig& config = start.config.parallel;
  const int num_processes = start.num_processes;
  if (num_processes == 1 || config.sum != ParallelSum::kExact) return;
  if (std::has_single_bit(static_cast<unsigned>(num_processes)) && num_processes <= config.parts)
    return;
  throw Error(ErrorKind::kConfig, str("parallel.sum is \"exact\", and there are ", num_processes,
                                      " processes; allowed: a power of two, up to parallel.parts (",
                                      config.parts, "); or set parallel.sum to \"fast\""));
}

void check_division(const Preflight& start) {
  const Config& config = start.config;
  if (start.num_processes == 1 || config.parallel.shard != ParallelShard::kParameters) return;
  if (const at::Device device = device_of(config); !device.is_cpu()) {
    try {
      page_mapper(device);
    } catch (const Error& error) {
      refuse_weights(error.what());
    }
  }
  if (!config.model.activation_checkpointing) {
    refuse_weights(
        "the backward computes each layer again, once its weights are gathered; set "
        "model.activation_checkpointing to true");
  }
  if (config.log.samples)
    refuse_weights("samples are written by a process that has all weights; leave log.samples out");
  if (config.eval.tasks)
    refuse_weights("tasks are asked of a process that has all weights; leave eval.tasks out");
}

void check_held_out_text(const Preflight& start) {
  const Config& config = start.config;
  // Token files have no bytes of text.
  if (config.data.eval && start.data->eval_shard && start.data->eval_bytes == 0 &&
      start.data->train_bytes > 0) {
    throw Error(ErrorKind::kData,
                "/data/eval: all documents are empty; give text, or leave data.eval out to hold "
                "out some of data.train");
  }
  if (start.data->eval_shard) return;
  const std::string needs =
      config.restart.seeds > 1
          ? str("restart.seeds ", config.restart.seeds, " ranks trials by held-out loss")
      : config.eval.early_stop ? "eval.early_stop ends the run by its held-out loss"
      : config.eval.tasks      ? "eval.tasks belongs to evaluations"
                               : "";
  if (needs.empty()) return;
  throw Error(ErrorKind::kConfig,
              needs + ", and there is no held-out text; set data.eval or data.eval_fraction");
}

void check_tasks_path(const Preflight& start) {
  const std::optional<std::string>& tasks = start.config.eval.tasks;
  if (!tasks || is_there(*tasks)) return;
  throw Error(ErrorKind::kUsage,
              str("/eval/tasks: ", *tasks,
                  " does not exist; give a folder with tasks.json or a FILE.jsonl, or set "
                  "eval.tasks to null"));
}

void check_probes(const Preflight& start) {
  const Config& config = start.config;
  if (!config.log.samples && !config.eval.tasks) return;
  const Tokenizer tokenizer = Tokenizer::load(start.data->tokenizer_model);
  if (config.log.samples) SampleWriter(config, tokenizer);
  if (config.eval.tasks) TaskProbe(config, tokenizer);
}

void check_prometheus(const Preflight& start) { require_prometheus_writable(start.config.log); }

void check_folder(const Preflight& start) { require_new_run(*start.run); }

void check_memory(const Preflight& start) {
  const at::Device device = device_of(start.config);
  require_memory(start.config, start.num_processes);
  if (start.config.init_from)
    require_memory_to_read(start.config, available_memory(at::kCPU), start.num_processes);
  if (device.is_cpu())
    require_longest_row(start.config, available_memory(device), start.num_processes);
}

void require_room_for_checkpoint(const Config& config, const RunFolder& run) {
  require_free_space(existing_part(run.checkpoints()), checkpoint_bytes(config),
                     str("a checkpoint of ", run.path().string()));
}

void check_forecast(const Preflight& start) {
  if (start.config.forecast) read_forecast(*start.config.forecast);
}

void check_room(const Preflight& start) { require_room_for_checkpoint(start.config, *start.run); }

struct PreflightCheck {
  PreflightStage stage;
  void (*require)(const Preflight&);
};
// In the order in which `plan` lists their errors.
constexpr PreflightCheck kChecks[] = {
    // clang-format off
    {PreflightStage::kSettings, check_processes},
    {PreflightStage::kSettings, check_tasks_path},
    {PreflightStage::kSettings, check_prometheus},
    {PreflightStage::kDevice, check_division},
    {PreflightStage::kPlanOnly, check_folder},  // the commands call require_new_run()
    {PreflightStage::kData, check_held_out_text},
    {PreflightStage::kData, check_probes},
    {PreflightStage::kPlanOnly, check_memory},  // a run calls require_memory() and fit_memory()
    {PreflightStage::kPlanOnly, check_forecast},  // make_new_run() calls read_forecast()
    {PreflightStage::kNewRun, check_room},
    // clang-format on
};

// ---- Warnings, a function each ----

// Passes over the text of a source above which a run learns it by heart rather than from it.
constexpr double kMostPasses = 20;

std::string count(int64_t number) { return format_count(static_cast<double>(number)); }

// "train.tokens 20M".
std::string length_setting(const TrainConfig& train) {
  if (train.steps) return str("train.steps ", *train.steps);
  if (train.epochs) return str("train.epochs ", *train.epochs);
  return str("train.tokens ", count(train.tokens.value_or(0)));
}

// Returns whether a tokenizer cuts text as Qwen 2 does, which is a name among llama.cpp's. Of a
// file that cannot be read nothing is said here.
bool cuts_as_qwen2(const fs::path& model) {
  try {
    const Tokenizer tokenizer = Tokenizer::load(model);
    if (!tokenizer.is_json()) return false;
    const std::string origin = model.string();
    return gguf_pre_name(read_tokenizer_json(tokenizer.model_bytes(), origin), origin) == "qwen2";
  } catch (const Error& error) {
    return error.kind() != ErrorKind::kData;
  }
}

void tokenizer_of_qwen2(const Config& config, Warnings& warnings) {
  if (config.model.model_type != ModelArchitecture::kQwen2) return;
  const std::optional<std::string>& model = config.tokenizer.model;
  if (model && cuts_as_qwen2(*model)) return;
  warnings.push_back(
      str("model.model_type qwen2: AutoTokenizer of transformers 5 reads the tokenizer of every "
          "Qwen2 as Qwen's own, and gives other ids than ",
          model ? *model : "the one that is trained here",
          "; set model.model_type to llama or qwen3, give a tokenizer of Qwen, or open the folder "
          "by another class (docs/model.md, Biases)"));
}

void many_passes(const Config& config, const BatchOrder& order, Warnings& warnings) {
  if (config.train.epochs) return;  // the number that was asked for
  const std::string cure = ", which a model learns by heart; lower it, or give more text";
  std::vector<std::string> often;
  size_t with_text = 0;
  for (const SourceSummary& source : order.sources()) {
    if (source.documents == 0) continue;
    ++with_text;
    if (source.epochs <= kMostPasses) continue;
    const DataSourceConfig& entry = config.data.train[static_cast<size_t>(source.source)];
    often.push_back(str("/data/train/", source.source, " (\"", entry.path, "\", weight ",
                        entry.weight, ", ", count(source.targets), " tokens) ",
                        printed("%.0f", source.epochs), " times"));
  }
  if (often.empty()) return;
  if (often.size() == with_text) {
    const double passes = static_cast<double>(order.num_targets()) /
                          static_cast<double>(std::max<int64_t>(1, order.targets_given()));
    warnings.push_back(str(length_setting(config.train), " goes ", printed("%.0f", passes),
                           " times over the text of data.train (", count(order.targets_given()),
                           " tokens)", cure));
    return;
  }
  constexpr size_t kMost = 3;
  const size_t others = often.size() > kMost ? often.size() - kMost : 0;
  often.resize(often.size() - others);
  warnings.push_back(str(length_setting(config.train), " goes over ", join(often, ", "),
                         others > 0 ? str(" and ", others, " more") : "", cure,
                         " or a lower weight"));
}

void sources_without_text(const Config& config, const BatchOrder& order, Warnings& warnings) {
  if (order.sources().size() < 2) return;
  for (const SourceSummary& source : order.sources()) {
    if (source.documents > 0) continue;
    warnings.push_back(str("/data/train/", source.source, " (\"",
                           config.data.train[static_cast<size_t>(source.source)].path,
                           "\") gives no document to train on: its files are empty, or all of it "
                           "is held out"));
  }
}

void large_batches(const Config& config, const BatchOrder& order, Warnings& warnings) {
  const int64_t epoch = order.targets_given();
  if (config.batch.tokens <= epoch) return;
  warnings.push_back(str("batch.tokens ", config.batch.tokens, " is more than all of data.train (",
                         epoch, " tokens): each step sees the same text ",
                         printed("%.1f", static_cast<double>(config.batch.tokens) /
                                             static_cast<double>(std::max<int64_t>(1, epoch))),
                         " times; lower it, or give more text"));
}

// Only bucket and pad have rows as short as their documents.
void short_documents(const Config& config, const BatchOrder& order, Warnings& warnings) {
  const int64_t longest = order.lengths().back().length;
  if (longest >= config.sequence.max_length) return;
  warnings.push_back(str("no document is long enough for sequence.max_length ",
                         config.sequence.max_length, ": the longest rows have ", longest,
                         ", and positions beyond them are never trained; set it to ", longest,
                         ", or take sequence.batching pack or concat"));
}

void learning_rate(const Config& config, const RunClock& run, Warnings& warnings) {
  const LrSchedule schedule(config.lr_schedule, config.optimizer.peak_lr(), run);
  if (schedule.warmup() >= run.total) {
    warnings.push_back(str("lr_schedule.warmup ",
                           write_training_duration(config.lr_schedule.warmup),
                           " is as long as the run (", length_setting(config.train),
                           ") or longer: the rate ends on its way up; lower it"));
    return;
  }
  if (config.lr_schedule.type != LrScheduleType::kWsd || config.lr_schedule.decay.value <= 0)
    return;
  const double decay = run.resolve(config.lr_schedule.decay);
  if (schedule.warmup() + decay > run.total * (1 + 1e-9)) {
    warnings.push_back(str("lr_schedule.decay ", write_training_duration(config.lr_schedule.decay),
                           " is longer than what follows the warm-up (",
                           length_setting(config.train),
                           "): the rate has no plateau; lower decay or warmup"));
  }
}

// Warns if the cap on the length is still below max_length at the end of the run.
void lengths_to_come(const Config& config, const RunClock& run, Warnings& warnings) {
  const LengthScheduleConfig& schedule = config.sequence.schedule;
  const bool grows =
      schedule.type == LengthScheduleType::kLinear || schedule.type == LengthScheduleType::kRoot;
  if (!grows && (schedule.type != LengthScheduleType::kStep || schedule.boundaries.empty())) return;
  const TrainingDuration& end = grows ? schedule.duration : schedule.boundaries.back();
  if (run.resolve(end) <= run.total * (1 + 1e-9)) return;
  warnings.push_back(str("sequence.schedule.", grows ? "duration " : "boundaries ",
                         write_training_duration(end), " is longer than the run (",
                         length_setting(config.train), "): no row ever has max_length ",
                         config.sequence.max_length));
}

void never_due(const Config& config, const RunClock& run, bool has_eval, Warnings& warnings) {
  // "100%" says itself that there is one, at the end.
  const auto beyond = [&](const TrainingDuration& every) {
    if (every.value <= 0 || every.unit == TrainingDuration::Unit::kSeconds ||
        every.unit == TrainingDuration::Unit::kPercent)
      return false;
    return run.resolve(every) > run.total;
  };
  const auto warn = [&](const char* key, const TrainingDuration& every, const char* what) {
    if (beyond(every))
      warnings.push_back(str(key, " ", write_training_duration(every), " is longer than the run (",
                             length_setting(config.train), "): ", what));
  };
  if (has_eval)
    warn("eval.every", config.eval.every, "evaluations come at its beginning and end alone");
  // Three other rules save checkpoints on the way: keep_every, keep_best, and the end of wsd's
  // plateau.
  const auto comes = [&](const TrainingDuration& every) {
    return every.value > 0 && !beyond(every);
  };
  const std::optional<TrainingDuration>& kept = config.checkpoint.keep_every;
  const bool saves_best = config.checkpoint.keep_best > 0 && has_eval && comes(config.eval.every);
  if (config.lr_schedule.type == LrScheduleType::kWsd || (kept && comes(*kept)) || saves_best)
    return;
  warn("checkpoint.every", config.checkpoint.every,
       "the only checkpoint comes at its end, and a run that is killed begins anew");
}

// Warns of settings that need the held-out loss, if there are no evaluations or too few.
void by_held_out_loss(const Config& config, const RunClock& run, bool has_eval,
                      Warnings& warnings) {
  // One is the default, and asks for nothing.
  if (!has_eval && config.checkpoint.keep_best > 1) {
    warnings.push_back(str("checkpoint.keep_best ", config.checkpoint.keep_best,
                           " keeps checkpoints by their held-out loss, and there is no held-out "
                           "text: none is kept for that; set data.eval or data.eval_fraction"));
  }
  const TrainingDuration& every = config.eval.every;
  if (!config.eval.early_stop || every.unit == TrainingDuration::Unit::kSeconds) return;
  // The one at the end has nothing left to stop.
  const double middles = every.value > 0 ? std::ceil(run.total / run.resolve(every) - 1e-9) - 1 : 0;
  const auto patience = static_cast<double>(config.eval.early_stop->patience);
  if (middles >= patience) return;
  warnings.push_back(str("eval.early_stop.patience ", config.eval.early_stop->patience,
                         " is more than the evaluations between the beginning and the end of the "
                         "run (eval.every ",
                         write_training_duration(every),
                         "): it never ends early; lower it, or evaluate more often"));
}

// Warns if whole documents make an evaluation longer than eval.tokens.
void long_evaluation(const Config& config, int64_t targets, Warnings& warnings) {
  constexpr int64_t kNoticed = 2;
  if (targets <= kNoticed * *config.eval.tokens) return;
  warnings.push_back(str("an evaluation takes whole documents, and so ", count(targets),
                         " tokens in place of eval.tokens ", count(*config.eval.tokens),
                         "; evaluate less often (eval.every), or give held-out text in shorter "
                         "documents (data.format lines, for example)"));
}

// Warns if the learning rate rises, since its schedule begins anew in the middle of a run.
std::optional<std::string> rate_rise(const Config& before, const Config& after,
                                     const BatchOrder& order, const ResumePoint& position) {
  // Both the rate and its share of the peak must rise: a new optimizer.lr or lr_factor alone is
  // meant.
  constexpr double kNoticed = 1.05;
  const auto share = [&](const Config& config, const std::optional<Pace>& pace) {
    RunClock run = run_clock(config, order, pace);
    // The run of `config` may have another length than `order`.
    if (config.train.epochs) run.total = *config.train.epochs * run.tokens_per_epoch;
    const LrSchedule schedule(config.lr_schedule, config.optimizer.peak_lr(), run);
    run = run.after(static_cast<double>(position.step), static_cast<double>(position.tokens));
    return schedule.at(run.done()) / config.optimizer.peak_lr();
  };
  const bool is_same = run_length(before.train) == run_length(after.train);
  const double was = share(before, position.pace);
  const double is = share(after, is_same ? position.pace : std::nullopt);
  const double peak_ratio = after.optimizer.peak_lr() / before.optimizer.peak_lr();
  if (is * std::min(1.0, peak_ratio) <= kNoticed * was) return std::nullopt;
  const std::string advice =
      before.lr_schedule.type == LrScheduleType::kWsd
          ? "its decay had begun: branch from a checkpoint before that with resume --from STEP "
            "--run-dir NEW"
          : "a schedule that is to be made longer is wsd or constant; or begin a new run from "
            "these "
            "weights with init_from and a schedule of its own";
  return str("the learning rate rises at step ", position.step + 1, " from ",
             printed("%.3g", was * before.optimizer.peak_lr()), " to ",
             printed("%.3g", is * after.optimizer.peak_lr()), ", since lr_schedule ",
             name_of(before.lr_schedule.type), " to ", length_setting(before.train), " becomes ",
             name_of(after.lr_schedule.type), " to ", length_setting(after.train), "; ", advice);
}

// Warns if a run was made shorter than it has already trained.
std::optional<std::string> early_end(const TrainConfig& before, const Config& after,
                                     const BatchOrder& order, const ResumePoint& position) {
  const TrainConfig& train = after.train;
  if (run_length(before) == run_length(train)) return std::nullopt;
  const RunClock clock =
      run_clock(after, order)
          .after(static_cast<double>(position.step), static_cast<double>(position.tokens));
  if (clock.done() <= clock.total) return std::nullopt;
  return str("the run has already trained ", counted(position.step, "step"), " (",
             count(position.tokens), " tokens), more than its new length: ", length_setting(train),
             " counts from the first step; it ends now, at its present learning rate, without a "
             "decay; to train on, give a greater length; to end with a decay, branch from an "
             "earlier checkpoint: lmtrain resume RUN --from STEP --run-dir NEW");
}

std::optional<std::string> too_many_threads(const Config& config, const Processes& processes) {
  const int64_t threads = *config.threads;
  const int sharers = processes.processor_sharers();
  const int available = available_processors();
  if (sharers * threads <= available) return std::nullopt;
  return str(processes.is_only() ? "" : str(sharers, " processes of "), counted(threads, "thread"),
             " share ", counted(available, "processor"),
             " and wait for each other; fewer threads (threads, OMP_NUM_THREADS) are faster, "
             "and give other bits");
}

// Warns of max_time under torchrun, for which every exit code but 0 is a failure.
std::optional<std::string> started_again(const Config& config, const Processes& processes) {
  const char* restarts = std::getenv("TORCHELASTIC_MAX_RESTARTS");
  if (!processes.is_first() || !config.train.max_time || restarts == nullptr ||
      std::atoi(restarts) <= 0)
    return std::nullopt;
  return str("train.max_time ends the run with exit code ", kExitMaxTime,
             ", and torchrun starts it again up to ", restarts,
             " times (--max-restarts), each time for train.max_time; give --max-restarts 0, or "
             "set no max_time");
}

Warnings warnings_of(std::initializer_list<std::optional<std::string>> found) {
  Warnings warnings;
  for (const std::optional<std::string>& warning : found)
    if (warning) warnings.push_back(*warning);
  return warnings;
}

// A resume removes what it takes for unfinished checkpoints of its run, and trials have fixed
// names.
void require_outside_runs(const RunFolder& run) {
  for (fs::path part = run.path(); part.has_relative_path(); part = part.parent_path()) {
    const RunFolder outer(part.parent_path());
    if ((part != outer.checkpoints() && part != outer.trials()) || !outer.holds_run()) continue;
    throw Error(
        ErrorKind::kUsage,
        str(run.path().string(), " lies in the folder ", part.filename().string(), " of the run ",
            outer.path().string(), ", which may remove it; choose another folder with --run-dir"));
  }
}

}  // namespace

void require_preflight(PreflightStage stage, const Preflight& preflight) {
  for (const PreflightCheck& check : kChecks)
    if (check.stage == stage) check.require(preflight);
}

std::vector<std::string> preflight_errors(const Preflight& preflight) {
  std::vector<std::string> errors;
  for (const PreflightCheck& check : kChecks) {
    try {
      check.require(preflight);
    } catch (const Error& error) {
      errors.emplace_back(error.what());
    }
  }
  return errors;
}

void require_no_model(const RunFolder& run) {
  if (!is_model_folder(run.path())) return;
  require_config_of_run(run);
  throw Error(
      ErrorKind::kUsage,
      str(run.path().string(),
          " is a model, not a run; choose another folder with --run-dir, and begin with its "
          "weights by --set init_from=",
          shell_quoted(run.path().string())));
}

void require_new_run(const RunFolder& run) {
  require_no_model(run);
  require_outside_runs(run);
  if (run.holds_run()) {
    throw Error(
        ErrorKind::kUsage,
        str(run.path().string(), " already holds a run; go on with it: lmtrain resume ",
            shell_quoted(run.path().string()), "; or choose another folder with --run-dir"));
  }
  if (is_folder(run.path()) && (!run.checkpoint_steps().empty() || is_there(run.trials()))) {
    throw Error(ErrorKind::kUsage,
                str(run.path().string(),
                    " holds checkpoints or trials of a run whose config.json is gone; put it back, "
                    "move them away, or choose another folder with --run-dir"));
  }
  require_writable(run.path());
}

Warnings preflight_warnings(const Config& config, const BatchOrder& order,
                            std::optional<int64_t> eval_targets) {
  Warnings warnings;
  const RunClock run = run_clock(config, order);
  tokenizer_of_qwen2(config, warnings);
  sources_without_text(config, order, warnings);
  many_passes(config, order, warnings);
  large_batches(config, order, warnings);
  short_documents(config, order, warnings);
  lengths_to_come(config, run, warnings);
  learning_rate(config, run, warnings);
  never_due(config, run, eval_targets.has_value(), warnings);
  by_held_out_loss(config, run, eval_targets.has_value(), warnings);
  if (eval_targets) long_evaluation(config, *eval_targets, warnings);
  return warnings;
}

Warnings resume_warnings(const Config& before, const Config& after, const BatchOrder& order,
                         const ResumePoint& position) {
  return warnings_of(
      {rate_rise(before, after, order, position), early_end(before.train, after, order, position)});
}

Warnings process_warnings(const Config& config, const Processes& processes) {
  return warnings_of({too_many_threads(config, processes), started_again(config, processes)});
}

Warnings resume_memory_warnings(const Config& config, std::optional<uint64_t> host,
                                int num_processes) {
  try {
    require_memory_to_read(config, host, num_processes);
    return {};
  } catch (const Error& error) {
    return {str("this run could not be resumed here: ", error.what())};
  }
}

uint64_t checkpoint_bytes(const Config& config) {
  const MemoryPlan plan = plan_memory(config, precision_of(config), /*micro_positions=*/0);
  constexpr int64_t kBytesOfPiece = 32;  // of a tokenizer, on average at most
  const int64_t weights = stored_weight_bytes(plan.weights, config.checkpoint.dtype);
  return kSmallFilesOfCheckpoint +
         static_cast<uint64_t>(weights + plan.optimizer + kBytesOfPiece * *config.model.vocab_size);
}

void make_room_for_checkpoint(const Config& config, const RunFolder& run,
                              const TrainingState& state) {
  const CheckpointConfig& checkpoint = config.checkpoint;
  remove_old_checkpoints(run, state, checkpoint);
  try {
    require_room_for_checkpoint(config, run);
  } catch (const Error& error) {
    std::vector<std::string> settings;
    if (checkpoint.keep > 1) settings.push_back(str("checkpoint.keep (", checkpoint.keep, ")"));
    if (checkpoint.keep_best > 0)
      settings.push_back(str("checkpoint.keep_best (", checkpoint.keep_best, ")"));
    if (settings.empty()) throw;
    throw Error(error.kind(), str(error.what(), ", or lower ", join(settings, " or "),
                                  ", and older checkpoints are removed"));
  }
}

CheckpointRoom checkpoint_room(const Config& config, const RunPlan& plan, const RunFolder& run) {
  CheckpointRoom room;
  room.each = checkpoint_bytes(config);
  if (plan.kept_checkpoints) {
    const int64_t best = plan.best_checkpoints == 0 ? 0 : config.checkpoint.keep_best;
    room.at_once = config.checkpoint.keep + best + *plan.kept_checkpoints + 1;
    if (plan.checkpoints && plan.best_checkpoints)
      room.at_once = std::min(*room.at_once, *plan.checkpoints + *plan.best_checkpoints);
  }
  room.where = existing_part(run.checkpoints());
  std::error_code error;
  room.available = fs::space(room.where, error).available;
  if (error) room.available = UINT64_MAX;  // it cannot be known
  return room;
}

std::string describe_room(const CheckpointRoom& room) {
  const std::string most = room.at_once ? str("at most ", *room.at_once, " at once of ") : "";
  const std::string free =
      room.available == UINT64_MAX ? "" : ", " + format_bytes(room.available) + " free";
  return str(most, format_bytes(room.each), " each", free, " in ", room.where.string());
}

}  // namespace lmtrain
