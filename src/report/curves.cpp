#include "report/curves.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace lmtrain {
namespace {

size_t bucket_begin(size_t bucket, size_t count, size_t num_values) {
  return bucket * num_values / count;
}

// The value of the last update in each bucket.
std::vector<float> bucket_ends(std::span<const double> values, size_t count) {
  std::vector<float> ends;
  ends.reserve(count);
  for (size_t i = 0; i < count; ++i)
    ends.push_back(static_cast<float>(values[bucket_begin(i + 1, count, values.size()) - 1]));
  return ends;
}

}  // namespace

CurveColumn bucket_column(std::span<const double> values, size_t count) {
  CurveColumn column;
  const bool one_each = count == values.size();
  for (size_t i = 0; i < count; ++i) {
    const size_t begin = bucket_begin(i, count, values.size());
    const size_t end = bucket_begin(i + 1, count, values.size());
    double sum = 0, low = std::numeric_limits<double>::infinity(), high = -low;
    int64_t num_finite = 0;
    for (const double value : values.subspan(begin, end - begin)) {
      if (!std::isfinite(value)) continue;
      sum += value;
      low = std::min(low, value);
      high = std::max(high, value);
      ++num_finite;
    }
    if (num_finite == 0) sum = low = high = std::numeric_limits<double>::quiet_NaN();
    column.mean.push_back(
        static_cast<float>(sum / static_cast<double>(std::max<int64_t>(1, num_finite))));
    if (one_each) continue;
    column.low.push_back(static_cast<float>(low));
    column.high.push_back(static_cast<float>(high));
  }
  return column;
}

RunCurves curves_of(const UpdateColumns& updates, size_t most_buckets) {
  RunCurves curves;
  if (updates.size() == 0) return curves;
  const size_t count = std::min(updates.size(), std::max<size_t>(1, most_buckets));
  curves.step = bucket_ends(updates.step, count);
  curves.tokens = bucket_ends(updates.tokens, count);
  curves.elapsed = bucket_ends(updates.elapsed, count);
  for (const UpdateColumn& column : kUpdateColumns) {
    const std::vector<double>& values = updates.*column.values;
    const std::string key = column.key;
    if (key == "step" || key == "tokens" || key == "elapsed") continue;
    if (std::none_of(values.begin(), values.end(), [](double x) { return std::isfinite(x); }))
      continue;
    curves.columns.emplace(key, bucket_column(values, count));
  }
  return curves;
}

}  // namespace lmtrain
