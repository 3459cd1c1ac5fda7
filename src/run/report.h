// Texts about a run for people: what it will do, the line of a step, how it ended. Pure functions.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/terminal/progress_line.h"
#include "batching/batch_order.h"
#include "config/config.h"
#include "corpus/prepare.h"

namespace lmtrain {

// Some lines before a run: model, device, data, lengths, steps, evaluations. `config` is resolved,
// `order` its plan over `data`. `eval_targets`: the targets of an evaluation; none: there is no
// held-out text. `folder`: the run's.
std::string run_summary(const Config& config, const PreparedData& data, const BatchOrder& order,
                        std::optional<int64_t> eval_targets, const std::filesystem::path& folder);

struct StepReport {
  int64_t step = 0;
  int64_t steps = 0;  // of the run, as far as known
  double share = 0;   // of the run
  double loss = 0, lr = 0;
  int64_t length = 0;
  double tokens_per_second = 0;
  double elapsed = 0, left = 0;  // seconds
};

// "step 120/2450  4.9%  loss 5.1234  lr 2.95e-03  length 256  31.8K tokens/s  43s elapsed  14m05s
// left". A narrow terminal goes without, in this order: elapsed, length, lr, tokens/s, share, loss.
std::vector<LinePart> step_line(const StepReport& report);

struct Evaluated {
  int64_t step = 0;
  double loss = 0;
};

struct EndReport {
  int64_t steps = 0, tokens = 0;
  std::optional<double> loss;
  std::optional<Evaluated> last, best;         // held-out loss
  double training = 0, evaluating = 0;         // seconds of this process
  double saving = 0, elapsed = 0;              // likewise; elapsed: all of it
  std::optional<std::filesystem::path> saved;  // the newest checkpoint
};

// Some lines: steps, tokens and time; losses; the checkpoint.
std::string end_summary(const EndReport& report);
// The commands that a person may want next with the finished run in `folder`, `eval` among them
// where there is held-out text. A longer run is among
// them where its rate does not jump: a schedule that has decayed would begin anew.
std::string next_commands(const std::filesystem::path& folder, const Config& config,
                          bool has_held_out);

}  // namespace lmtrain
