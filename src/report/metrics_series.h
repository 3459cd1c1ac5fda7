// Reads metrics.jsonl of a run (docs/formats/run_folder.md) into columns of numbers. A number that
// is missing or null becomes NaN.
//
// A run that goes on from a checkpoint writes the steps after it again. It cuts the file back
// first; where that did not happen, such as in a file that was put together by hand, the lines that
// come later count. A torn last line, and lines that are no JSON objects, are skipped.
#pragma once

#include <array>
#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

#include "base/stop.h"

namespace lmtrain {

// Each column holds one element an update, by ascending step, in the units of metrics.jsonl.
struct UpdateColumns {
  std::vector<double> step, tokens, elapsed;
  std::vector<double> loss, grad_norm, lr, seq_len, tokens_per_second, mfu, communication_share;

  size_t size() const { return step.size(); }
};

struct UpdateColumn {
  const char* key;  // in metrics.jsonl
  std::vector<double> UpdateColumns::*values;
};
// Lists the columns that an update's line must have, then those that it may lack.
inline constexpr std::array<UpdateColumn, 10> kUpdateColumns = {
    {{"step", &UpdateColumns::step},
     {"tokens", &UpdateColumns::tokens},
     {"elapsed", &UpdateColumns::elapsed},
     {"loss", &UpdateColumns::loss},
     {"grad_norm", &UpdateColumns::grad_norm},
     {"lr", &UpdateColumns::lr},
     {"seq_len", &UpdateColumns::seq_len},
     {"tokens_per_second", &UpdateColumns::tokens_per_second},
     {"mfu", &UpdateColumns::mfu},
     {"communication_share", &UpdateColumns::communication_share}}};

// Holds one figure of the evaluations, such as "eval_loss", by ascending step. `elapsed` is taken
// from the update before the evaluation.
struct EvaluationColumn {
  std::string key;
  std::vector<double> step, tokens, elapsed, value;
};

struct MetricsSeries {
  UpdateColumns updates;
  std::vector<EvaluationColumn> evaluations;  // in the order in which the keys appear
};

// A missing file has no lines. Calls `poll` at each line, which by default throws StopRequested on
// a signal. Throws Error(kIo) or Error(kData) when the file cannot be read or is no file.
MetricsSeries read_metrics_series(const std::filesystem::path& file,
                                  const Poll& poll = throw_if_stopped);

}  // namespace lmtrain
