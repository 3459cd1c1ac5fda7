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
#include <map>
#include <span>
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

// Makes the updates of a run small enough for a page. Consecutive updates become buckets; a bucket
// keeps the mean, the lowest and the highest value. So a spike of one update in 100,000 still
// shows.

// Holds an element a bucket. Values that are not finite are left out; a bucket without another is
// NaN in all three. Where every bucket holds one update, `low` and `high` are empty: they would
// equal `mean`.
struct CurveColumn {
  std::vector<float> mean, low, high;
};

struct RunCurves {
  std::vector<float> step, tokens, elapsed;  // of the last update in each bucket
  // The figures of updates by their keys in metrics.jsonl; those without a finite value are not
  // here.
  std::map<std::string, CurveColumn> columns;
};

// Bucket i of `count` holds the values [i n / count, (i + 1) n / count). Requires 1 <= count <= n.
CurveColumn bucket_column(std::span<const double> values, size_t count);

// Returns at most `most_buckets` buckets, all of the same number of updates to within one; with at
// most that many updates each has a bucket of its own.
RunCurves curves_of(const UpdateColumns& updates, size_t most_buckets);

}  // namespace lmtrain
