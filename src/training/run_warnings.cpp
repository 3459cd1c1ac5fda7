#include "training/run_warnings.h"

#include <algorithm>
#include <cmath>

#include "base/text.h"
#include "config/units.h"
#include "schedule/lr_schedule.h"
#include "schedule/run_clock.h"
#include "training/resolve.h"

namespace lmtrain {
namespace {

using Warnings = std::vector<std::string>;

// Passes over the text of a source above which a run learns it by heart rather than from it.
constexpr double kMostPasses = 20;

std::string count(int64_t number) { return format_count(static_cast<double>(number)); }

// "train.tokens 20M".
std::string length_setting(const TrainConfig& train) {
  if (train.steps) return str("train.steps ", *train.steps);
  if (train.epochs) return str("train.epochs ", *train.epochs);
  return str("train.tokens ", count(train.tokens.value_or(0)));
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
  const LrSchedule schedule(config.lr_schedule, config.optimizer.lr, run);
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

// A cap on the length that is still below max_length at the end.
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

// Settings that go by the held-out loss, where it does not come or comes too seldom.
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

// Evaluations take whole documents.
void long_evaluation(const Config& config, int64_t targets, Warnings& warnings) {
  constexpr int64_t kNoticed = 2;
  if (targets <= kNoticed * *config.eval.tokens) return;
  warnings.push_back(str("an evaluation takes whole documents, and so ", count(targets),
                         " tokens in place of eval.tokens ", count(*config.eval.tokens),
                         "; evaluate less often (eval.every), or give held-out text in shorter "
                         "documents (data.format lines, for example)"));
}

}  // namespace

Warnings run_warnings(const Config& config, const BatchOrder& order,
                      std::optional<int64_t> eval_targets) {
  Warnings warnings;
  const RunClock run = run_clock(config, order);
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

std::optional<std::string> rate_rise(const Config& before, const Config& after,
                                     const BatchOrder& order, const ResumePoint& position) {
  // A share of the peak, so that a new optimizer.lr, which is meant, does not count.
  constexpr double kNoticed = 1.05;
  const auto share = [&](const Config& config) {
    RunClock run = run_clock(config, order);
    // The run of `config` may have another length than `order`.
    if (config.train.epochs) run.total = *config.train.epochs * run.tokens_per_epoch;
    const LrSchedule schedule(config.lr_schedule, config.optimizer.lr, run);
    run = run.after(static_cast<double>(position.step), static_cast<double>(position.tokens));
    return schedule.at(run.done()) / config.optimizer.lr;
  };
  const double was = share(before);
  const double is = share(after);
  if (is <= kNoticed * was) return std::nullopt;
  const std::string advice =
      before.lr_schedule.type == LrScheduleType::kWsd
          ? "its decay had begun: branch from a checkpoint before that with resume --from STEP "
            "--run-dir NEW"
          : "a schedule that is to be made longer is wsd or constant; or begin a new run from "
            "these "
            "weights with init_from and a schedule of its own";
  return str("the learning rate rises at step ", position.step + 1, " from ",
             printed("%.3g", was * before.optimizer.lr), " to ",
             printed("%.3g", is * after.optimizer.lr), ", since lr_schedule ",
             name_of(before.lr_schedule.type), " to ", length_setting(before.train), " becomes ",
             name_of(after.lr_schedule.type), " to ", length_setting(after.train), "; ", advice);
}

}  // namespace lmtrain
