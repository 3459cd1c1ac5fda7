#include "runlog/report.h"

#include <algorithm>

#include "base/text.h"
#include "config/model_family.h"
#include "device/device.h"
#include "eval/eval_share.h"
#include "model/parameters.h"
#include "ops/flash_attention.h"

namespace lmtrain {
namespace {

std::string figures_text(const EvalResult& result) {
  return str("loss ", printed("%.4f", result.loss()), "  perplexity ",
             printed("%.2f", result.perplexity()), "  bits per byte ",
             printed("%.4f", result.bits_per_byte()));
}

std::string twice(const TrainConfig& train) {
  if (train.steps) return str("train.steps=", 2 * *train.steps);
  if (train.epochs) return str("train.epochs=", 2 * *train.epochs);
  return str("train.tokens=", 2 * *train.tokens);
}

}  // namespace

std::string run_summary(const Config& config, const PreparedData& data, const BatchOrder& order,
                        std::optional<int64_t> eval_targets, const std::filesystem::path& folder,
                        const TrainingState* ended) {
  const ModelConfig& model = config.model;
  const at::Device device = device_of(config);
  std::string attention;
  if (device.is_cuda()) {
    attention = str(", attention by ",
                    attention_backend(device, precision_of(config).dtype, model.num_attention_heads,
                                      model.num_key_value_heads, model.resolved_head_dim(),
                                      config.sequence.max_length));
  }
  std::vector<std::string> batches;
  for (const LengthSummary& length : order.lengths()) {
    batches.push_back(str(length.batches, " of length ", length.length));
  }
  std::string evaluations;
  if (eval_targets && ended == nullptr) {
    evaluations =
        str("\nevaluation about ", count_evaluations(config, data), " times on ",
            format_count(static_cast<double>(*eval_targets)), " held-out tokens, together about ",
            printed("%.0f %%", 100 * evaluation_share(config, data, *eval_targets)), " of the run");
  }
  std::string sources;
  for (const SourceSummary& source : order.sources()) {
    if (order.sources().size() == 1) break;
    sources +=
        str("\nsource     ", config.data.train[static_cast<size_t>(source.source)].path, ": ",
            counted(source.documents, "document"), ", ", printed("%.2f", source.epochs), " times ",
            format_count(static_cast<double>(source.targets)), " tokens");
  }
  const std::string length =
      ended == nullptr
          ? str("about ", order.num_batches(), " steps, ",
                format_count(static_cast<double>(order.num_targets())), " tokens, into ")
          : str("ends after the ", counted(ended->step, "step"), " that it has trained, ",
                format_count(static_cast<double>(ended->tokens)), " tokens, in ");
  const ParameterLayout layout(model, *model.vocab_size);
  return str("model      ", model_text(model, layout.num_parameters()), "\ncompute    ",
             device_description(device, static_cast<int>(*config.threads)), ", ",
             name_of(config.precision), ", ", name_of(config.compile), attention,
             "\nbatches    of ", config.batch.tokens, " tokens: ", join(batches, ", "), sources,
             "\nrun        ", length, folder.string(), evaluations);
}

std::vector<LinePart> step_line(const StepReport& report) {
  return {{str("step ", report.step, "/", std::max(report.step, report.steps)), 0},
          {printed("%.1f%%", 100 * std::clamp(report.share, 0.0, 1.0)), 2},
          {str("loss ", printed("%.4f", report.loss)), 1},
          {str("lr ", printed("%.2e", report.lr)), 4},
          {str("length ", report.length), 5},
          {str(format_count(report.tokens_per_second), " tokens/s"), 3},
          {str(format_duration(report.elapsed), " elapsed"), 6},
          {str(format_duration(report.left), " left"), 0}};
}

std::string evaluation_note(int64_t step, const Evaluation& evaluation) {
  std::string note = str("step ", step, "  held-out ", figures_text(evaluation.all));
  const std::vector<EvalPart>& sets = evaluation.sets;
  const size_t shown = std::min(sets.size(), kMostSetsShown);
  size_t width = 0;
  for (size_t i = 0; i < shown; ++i) width = std::max(width, sets[i].name.size());
  for (size_t i = 0; i < shown; ++i) {
    const std::string gap(width - sets[i].name.size(), ' ');
    note += str("\n  ", sets[i].name, gap, "  ", figures_text(sets[i].result));
  }
  if (shown < sets.size()) note += str("\n  and ", sets.size() - shown, " more, in metrics.jsonl");
  return note;
}

std::string end_summary(const EndReport& report) {
  std::string text =
      str("run        ", counted(report.steps, "step"), ", ",
          format_count(static_cast<double>(report.tokens)), " tokens; ",
          format_duration(report.elapsed), ": training ", format_duration(report.training),
          ", evaluation ", format_duration(report.evaluating), ", saves ",
          format_duration(report.saving));
  if (report.loss) text += str("\nloss       ", printed("%.4f", *report.loss));
  if (report.loss && report.last) {
    text += str(", held-out ", printed("%.4f", report.last->loss));
    if (report.last->step < report.steps) text += str(" at step ", report.last->step);
    if (report.best && report.best->step != report.last->step) {
      text +=
          str(" (best ", printed("%.4f", report.best->loss), " at step ", report.best->step, ")");
    }
  }
  if (!report.early_stop.empty()) text += str("\nearly stop ", report.early_stop);
  if (report.saved) text += str("\ncheckpoint ", report.saved->string());
  if (report.best_checkpoint && report.best_path != report.saved) {
    text += str("\nbest       step ", report.best_checkpoint->step, ", held-out ",
                printed("%.4f", report.best_checkpoint->loss), ", ", report.best_path.string());
  }
  return text;
}

std::string task_line(const std::vector<TaskResult>& tasks) {
  std::vector<std::string> parts;
  parts.reserve(tasks.size());
  for (const TaskResult& task : tasks)
    parts.push_back(str(quote(task.name), " ", printed("%.3f", task.accuracy.value)));
  return str(join(parts, ", "), "; centred mean ", printed("%.3f", centred_mean(tasks).value));
}

std::string early_stop_reason(const Config& config, const TrainingState& state) {
  const EarlyStopConfig& rule = *config.eval.early_stop;
  const auto& lowest = state.evaluations.lowest;
  return str("the last ", counted(state.evaluations.without_gain, "evaluation"),
             " did not lower the held-out loss",
             rule.min_delta > 0 ? str(" by more than ", rule.min_delta) : "", " (eval.early_stop)",
             lowest
                 ? str("; the lowest is ", printed("%.4f", lowest->loss), " at step ", lowest->step)
                 : "");
}

std::string best_note(const EndReport& report) {
  const std::optional<EvaluatedStep>& best = report.best_checkpoint;
  if (!best || !report.saved || best->step == report.saved_step) return "";
  const bool is_last = report.last && report.last->step == report.saved_step;
  return str("step ", best->step, " is the best (held-out ", printed("%.4f", best->loss),
             "): these take it, and with --last step ", report.saved_step,
             is_last ? str(" (", printed("%.4f", report.last->loss), ")") : "");
}

std::string next_commands(const std::filesystem::path& folder, const Config& config,
                          bool has_held_out, bool ended_early, const std::string& best_note) {
  const std::string run = shell_quoted(folder.string());
  const std::string more =
      ended_early ? str("lmtrain resume ", run, " --set eval.early_stop=null")
      : config.lr_schedule.type == LrScheduleType::kConstant
          ? str("lmtrain resume ", run, " --set ", twice(config.train))
          : str("lmtrain train CONFIG.json --run-dir NEW --set init_from=", run);
  const std::string eval = has_held_out ? str("lmtrain eval ", run, "\n           ") : "";
  const std::string best = best_note.empty() ? "" : best_note + "\n           ";
  return str("next       ", best, eval, "lmtrain generate ", run,
             " --prompt \"Once upon a time\"\n           ", more);
}

}  // namespace lmtrain
