#include "report/charts.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <optional>

#include "config/settings.h"

namespace lmtrain {
namespace {

const std::vector<Chart>& charts_of_updates() {
  static const std::vector<Chart> charts = {
      {.key = "loss",
       .title = "Training loss",
       .unit = "nats a target token, before each update",
       .is_loss = true,
       .is_smoothed = true,
       .has_events = true,
       .is_wide = true},
      {.key = "lr",
       .title = "Learning rate",
       .unit = "of each update",
       .scale = ChartScale::kFromZero},
      {.key = "grad_norm",
       .title = "Gradient norm",
       .unit = "L2 norm, before clipping",
       .scale = ChartScale::kFromZero,
       .is_smoothed = true,
       .has_events = true},
      {.key = "tokens_per_second",
       .title = "Throughput",
       .unit = "target tokens a second of training",
       .scale = ChartScale::kFromZero,
       .is_smoothed = true},
      {.key = "seq_len",
       .title = "Sequence length",
       .unit = "targets in a row, mean",
       .scale = ChartScale::kPowersOfTwo,
       .is_smoothed = true},
      {.key = "mfu",
       .title = "Model FLOPs utilisation",
       .unit = "share of the device's peak",
       .scale = ChartScale::kFromZero,
       .is_smoothed = true},
      {.key = "communication_share",
       .title = "Communication",
       .unit = "share of a step in which a process waited for the others",
       .scale = ChartScale::kFromZero,
       .is_smoothed = true}};
  return charts;
}

// Returns N of a bucket of document lengths, "eval_loss/length_N"; nothing for another key.
std::optional<double> length_of(const std::string& key) {
  const size_t slash = key.find('/');
  if (slash == std::string::npos || !is_length_name(key.substr(slash + 1))) return std::nullopt;
  return std::strtod(key.c_str() + slash + 1 + kLengthPrefix.size(), nullptr);
}

Chart chart_of_evaluations(const std::string& key) {
  Chart chart = {.key = key, .evaluation = true, .title = key, .unit = "at each evaluation"};
  const size_t slash = key.find('/');
  const std::string figure = key.substr(0, slash);
  const std::string part = slash == std::string::npos ? "" : key.substr(slash + 1);
  const std::optional<double> length = length_of(key);
  const std::string set = part.empty() ? ""
                          : length ? ": documents of length " + part.substr(kLengthPrefix.size())
                                   : ": " + part;
  if (figure == "eval_loss") {
    chart.title = "Held-out loss" + set;
    chart.unit = "nats a target token, at each evaluation";
    chart.is_loss = true;
    chart.is_wide = set.empty();
  } else if (figure == "eval_bits_per_byte") {
    chart.title = "Held-out bits per byte" + set;
    chart.unit = "of text, at each evaluation";
    chart.is_loss = true;
  } else if (figure == "task") {
    chart.title = key == "task/centred_mean" ? "Tasks: centred mean" : "Task" + set;
  }
  return chart;
}

bool is_drawn(const std::string& key) {
  // A task has several figures of one answer each; its accuracy is drawn.
  if (key.starts_with("task/")) return key.ends_with("/accuracy") || key == "task/centred_mean";
  // The perplexity is e to the loss, whose curve has the same shape.
  return key != "eval_perplexity" && !key.starts_with("eval_perplexity/");
}

bool has_value(const EvaluationColumn& column) {
  return std::any_of(column.value.begin(), column.value.end(),
                     [](double value) { return std::isfinite(value); });
}

}  // namespace

std::vector<Chart> charts_of(const std::vector<RunRecord>& runs) {
  std::vector<Chart> charts;
  const auto add_updates = [&](const Chart& chart) {
    if (std::any_of(runs.begin(), runs.end(),
                    [&](const RunRecord& run) { return run.curves.columns.contains(chart.key); })) {
      charts.push_back(chart);
    }
  };
  add_updates(charts_of_updates().front());
  std::vector<std::string> keys;
  for (const RunRecord& run : runs) {
    for (const EvaluationColumn& column : run.evaluations) {
      if (!is_drawn(column.key) || !has_value(column)) continue;
      if (std::find(keys.begin(), keys.end(), column.key) == keys.end()) keys.push_back(column.key);
    }
  }
  // The loss of all held-out text, of its sets, other figures, and the loss by length.
  const auto rank = [](const std::string& key) -> double {
    if (key == "eval_loss") return 0;
    if (const std::optional<double> length = length_of(key)) return 3 + *length;
    return key.starts_with("eval_loss/") ? 1 : 2;
  };
  std::stable_sort(keys.begin(), keys.end(),
                   [&](const std::string& a, const std::string& b) { return rank(a) < rank(b); });
  for (const std::string& key : keys) charts.push_back(chart_of_evaluations(key));
  for (size_t i = 1; i < charts_of_updates().size(); ++i) add_updates(charts_of_updates()[i]);
  // Two narrow ones stand side by side; none stands alone.
  const auto num_narrow = std::count_if(charts.begin(), charts.end(),
                                        [](const Chart& chart) { return !chart.is_wide; });
  if (num_narrow % 2 == 1) charts.back().is_wide = true;
  return charts;
}

}  // namespace lmtrain
