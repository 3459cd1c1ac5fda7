// Reads metrics.jsonl of a run (docs/formats/run_folder.md) into columns of numbers, and makes
// curves for a page of them. A number that is missing or null becomes NaN.
//
// If a step appears again, as in a file that a person put together, the later line replaces all
// earlier ones from that step on. A torn last line, and lines that are no JSON objects, are
// skipped.
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

// Each column holds one value for each update, by ascending step, in the units of metrics.jsonl.
struct UpdateColumns {
  std::vector<double> step, tokens, elapsed;
  std::vector<double> loss, grad_norm, lr, seq_len, tokens_per_second, mfu, communication_share;

  size_t size() const { return step.size(); }
};

struct UpdateColumn {
  const char* key;  // in metrics.jsonl
  std::vector<double> UpdateColumns::*values;
};
// Lists the columns of updates.
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

// Holds one figure of the evaluations, such as "eval_loss", by ascending step. `elapsed` is the
// `elapsed` of the last update before the evaluation, and 0 before the first update.
struct EvaluationColumn {
  std::string key;
  std::vector<double> step, tokens, elapsed, value;
};

struct MetricsSeries {
  UpdateColumns updates;
  std::vector<EvaluationColumn> evaluations;  // in the order in which the keys appear
};

// Returns the series of a file; an empty one if the file is missing. Calls `poll` at each line,
// which by default throws StopRequested on a signal. Throws Error(kIo), and Error(kData) if the
// path is no file.
MetricsSeries read_metrics_series(const std::filesystem::path& file,
                                  const Poll& poll = throw_if_stopped);

// ---- Curves ----

// A page has room for few points. So consecutive updates become buckets, and a bucket keeps the
// mean, the lowest and the highest value: a spike of one update in 100,000 still shows.
//
// Holds one value for each bucket, over its finite values; NaN if it has none. If every bucket
// holds one update, `low` and `high` are empty: they would equal `mean`.
struct CurveColumn {
  std::vector<float> mean, low, high;
};

struct RunCurves {
  std::vector<float> step, tokens, elapsed;  // of the last update of each bucket
  // The figures of updates that have a finite value, by their keys in metrics.jsonl.
  std::map<std::string, CurveColumn> columns;
};

// Bucket i of `count` holds the values [i n / count, (i + 1) n / count). Requires 1 <= count <= n.
CurveColumn bucket_column(std::span<const double> values, size_t count);

// Returns curves of at most `most_buckets` buckets, whose numbers of updates differ by one at most.
// If there are no more updates than that, each has its own bucket.
RunCurves curves_of(const UpdateColumns& updates, size_t most_buckets);

}  // namespace lmtrain
