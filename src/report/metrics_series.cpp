#include "report/metrics_series.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "formats/json_lines.h"

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

}  // namespace lmtrain
