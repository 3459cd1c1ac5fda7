#include "run/report.h"

#include <algorithm>
#include <cmath>

#include "base/text.h"

namespace lmtrain {
namespace {

std::string twice(const TrainConfig& train) {
  if (train.steps) return str("train.steps=", 2 * *train.steps);
  if (train.epochs) return str("train.epochs=", 2 * *train.epochs);
  return str("train.tokens=", 2 * *train.tokens);
}

}  // namespace

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
  if (report.saved) text += str("\ncheckpoint ", report.saved->string());
  return text;
}

std::string next_commands(const std::filesystem::path& folder, const Config& config,
                          bool has_held_out) {
  const std::string run = shell_quoted(folder.string());
  const std::string more =
      config.lr_schedule.type == LrScheduleType::kConstant
          ? str("lmtrain resume ", run, " --set ", twice(config.train))
          : str("lmtrain train CONFIG.json --run-dir NEW --set init_from=", run);
  const std::string eval = has_held_out ? str("lmtrain eval ", run, "\n           ") : "";
  return str("next       ", eval, "lmtrain generate ", run,
             " --prompt \"Once upon a time\"\n           ", more);
}

}  // namespace lmtrain
