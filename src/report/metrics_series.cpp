#include "report/metrics_series.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/stop.h"
#include "formats/strict_json.h"

namespace lmtrain {
namespace {

using Json = nlohmann::json;

double number_or_nan(const Json& line, const char* key) {
  return number_at(line, key).value_or(std::numeric_limits<double>::quiet_NaN());
}

// Removes what was recorded of `step` and the steps after it.
void cut_back(UpdateColumns& updates, double step) {
  const auto first = std::lower_bound(updates.step.begin(), updates.step.end(), step);
  const auto kept = static_cast<size_t>(first - updates.step.begin());
  for (const UpdateColumn& column : kUpdateColumns) (updates.*column.values).resize(kept);
}
void cut_back(EvaluationColumn& column, double step) {
  const auto first = std::lower_bound(column.step.begin(), column.step.end(), step);
  const auto kept = static_cast<size_t>(first - column.step.begin());
  for (auto* values : {&column.step, &column.tokens, &column.elapsed, &column.value})
    values->resize(kept);
}

void add_update(MetricsSeries& series, const Json& line, double step) {
  UpdateColumns& updates = series.updates;
  if (updates.size() > 0 && step <= updates.step.back()) {
    cut_back(updates, step);
    for (EvaluationColumn& column : series.evaluations) cut_back(column, step);
  }
  for (const UpdateColumn& column : kUpdateColumns)
    (updates.*column.values).push_back(number_or_nan(line, column.key));
}

EvaluationColumn& column_of(MetricsSeries& series, const std::string& key) {
  for (EvaluationColumn& column : series.evaluations)
    if (column.key == key) return column;
  return series.evaluations.emplace_back(EvaluationColumn{key, {}, {}, {}, {}});
}

void add_evaluation(MetricsSeries& series, const Json& line, double step) {
  const UpdateColumns& updates = series.updates;
  const double elapsed = updates.size() > 0 ? updates.elapsed.back() : 0;
  for (const auto& [key, value] : line.items()) {
    if (key == "step" || key == "tokens" || !(value.is_number() || value.is_null())) continue;
    EvaluationColumn& column = column_of(series, key);
    cut_back(column, step);
    column.step.push_back(step);
    column.tokens.push_back(number_or_nan(line, "tokens"));
    column.elapsed.push_back(elapsed);
    column.value.push_back(number_or_nan(line, key.c_str()));
  }
}

}  // namespace

MetricsSeries read_metrics_series(const std::filesystem::path& file, const Poll& poll) {
  MetricsSeries series;
  for_each_json_line(file, [&](const Json& line, uint64_t) {
    poll();
    const double step = number_or_nan(line, "step");
    if (!(step >= 0)) return;
    if (line.contains("seq_len")) {
      add_update(series, line, step);
    } else if (line.contains("eval_loss")) {
      add_evaluation(series, line, step);
    }
  });
  return series;
}

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
