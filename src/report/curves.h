// Makes the updates of a run small enough for a page. Consecutive updates become buckets; a bucket
// keeps the mean, the lowest and the highest value. So a spike of one update in 100,000 still
// shows.
#pragma once

#include <cstddef>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "report/metrics_series.h"

namespace lmtrain {

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
