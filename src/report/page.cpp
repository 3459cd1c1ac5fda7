#include "report/page.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/random_id.h"
#include "base/text.h"
#include "report/charts.h"
#include "report/html.h"
#include "report/page_files.h"
#include "report/seed_groups.h"
#include "report/static_chart.h"
#include "report/tables.h"

namespace lmtrain {
namespace {

using OrderedJson = nlohmann::ordered_json;

std::vector<float> as_floats(const std::vector<double>& values) {
  return {values.begin(), values.end()};
}

OrderedJson curves_json(const RunCurves& curves) {
  OrderedJson columns = OrderedJson::object();
  for (const auto& [key, column] : curves.columns) {
    columns[key] = {{"mean", base64_floats(column.mean)}};
    if (column.low.empty() || key == "lr") continue;  // the rate moves too little for a band
    columns[key]["low"] = base64_floats(column.low);
    columns[key]["high"] = base64_floats(column.high);
  }
  return {{"step", base64_floats(curves.step)},
          {"tokens", base64_floats(curves.tokens)},
          {"elapsed", base64_floats(curves.elapsed)},
          {"columns", std::move(columns)}};
}

OrderedJson evaluations_json(const RunRecord& run) {
  OrderedJson columns = OrderedJson::object();
  for (const EvaluationColumn& column : run.evaluations) {
    columns[column.key] = {{"step", base64_floats(as_floats(column.step))},
                           {"tokens", base64_floats(as_floats(column.tokens))},
                           {"elapsed", base64_floats(as_floats(column.elapsed))},
                           {"mean", base64_floats(as_floats(column.value))}};
  }
  return columns;
}

OrderedJson expected_json(const std::optional<ExpectedCurve>& curve) {
  if (!curve) return nullptr;
  const auto column = [&](double ExpectedPoint::*value) {
    std::vector<float> floats;
    for (const ExpectedPoint& point : curve->points)
      floats.push_back(static_cast<float>(point.*value));
    return base64_floats(floats);
  };
  return {{"tokens", column(&ExpectedPoint::tokens)},
          {"mean", column(&ExpectedPoint::loss)},
          {"low", column(&ExpectedPoint::low)},
          {"high", column(&ExpectedPoint::high)}};
}

// Returns the number of each run's group, where colours by group say more than colours by run:
// there are several groups, and some run shares its own. Else empty.
std::vector<OrderedJson> group_numbers(const std::vector<RunRecord>& runs) {
  const std::vector<SeedGroup> groups = seed_groups(runs);
  std::vector<OrderedJson> numbers(runs.size());
  bool is_shared = false;
  for (size_t group = 0; group < groups.size(); ++group) {
    is_shared = is_shared || groups[group].runs.size() > 1;
    for (const size_t run : groups[group].runs) numbers[run] = group;
  }
  return is_shared && groups.size() > 1 ? numbers : std::vector<OrderedJson>();
}

OrderedJson data_json(const std::vector<Chart>& charts, const std::vector<RunRecord>& runs) {
  OrderedJson json = {{"charts", OrderedJson::array()}, {"runs", OrderedJson::array()}};
  for (const Chart& chart : charts) {
    json["charts"].push_back({{"key", chart.key},
                              {"evaluation", chart.evaluation},
                              {"title", chart.title},
                              {"fromZero", chart.scale == ChartScale::kFromZero},
                              {"powersOfTwo", chart.scale == ChartScale::kPowersOfTwo},
                              {"isLoss", chart.is_loss},
                              {"isSmoothed", chart.is_smoothed},
                              {"hasEvents", chart.has_events}});
  }
  const std::vector<OrderedJson> groups = group_numbers(runs);
  for (size_t i = 0; i < runs.size(); ++i) {
    OrderedJson events = OrderedJson::array();
    for (const RunEvent& event : runs[i].events.events)
      events.push_back({{"kind", event.kind}, {"step", event.step}, {"text", event.text}});
    json["runs"].push_back({{"label", runs[i].label},
                            {"classes", run_classes(i)},
                            {"group", groups.empty() ? OrderedJson() : groups[i]},
                            {"updates", curves_json(runs[i].curves)},
                            {"evaluations", evaluations_json(runs[i])},
                            {"expected", expected_json(runs[i].expected)},
                            {"events", std::move(events)}});
  }
  return json;
}

std::string title_of(const std::vector<RunRecord>& runs) {
  return runs.size() == 1
             ? runs[0].label
             : counted(static_cast<int64_t>(runs.size()), "run") + ": " + runs[0].label +
                   (runs.size() == 2 ? " and " : " ... ") + runs.back().label;
}

std::string figure(const Chart& chart, size_t index, const std::vector<RunRecord>& runs) {
  const bool is_forecast =
      chart.key == kExpectedKey && std::any_of(runs.begin(), runs.end(), [](const RunRecord& run) {
        return run.expected.has_value();
      });
  return str("<figure class=\"chart", chart.is_wide ? " wide" : "", "\" data-chart=\"", index,
             "\"><figcaption><b>", escape_html(chart.title), "</b> <span>", escape_html(chart.unit),
             is_forecast ? "; dashed: as it was forecast, with the interval of 80 %" : "",
             "</span></figcaption><div class=\"plot\">", static_chart(chart, runs),
             "</div></figure>\n");
}

std::string curves_section(const std::vector<Chart>& charts, const std::vector<RunRecord>& runs) {
  if (charts.empty())
    return "<section><h2>Curves</h2><p>There is no update or evaluation yet.</p></section>\n";
  std::string figures;
  for (size_t i = 0; i < charts.size(); ++i) figures += figure(charts[i], i, runs);
  return str(
      "<section class=\"curves\"><h2>Curves</h2><div id=\"controls\" hidden></div>"
      "<div class=\"charts\">",
      figures, "</div></section>\n");
}

std::string head(const std::vector<RunRecord>& runs, const std::string& word) {
  return str(
      "<html lang=\"en\"><head><meta charset=\"utf-8\">"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "
      "style-src 'nonce-",
      word, "'; script-src 'nonce-", word,
      "'\"><meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">"
      "<meta name=\"color-scheme\" content=\"light dark\">"
      "<meta name=\"generator\" content=\"lmtrain " LMTRAIN_VERSION "\"><title>",
      escape_html(title_of(runs)), "</title>\n<style nonce=\"", word, "\">", kPageCss,
      "</style></head>\n");
}

}  // namespace

size_t most_buckets(size_t num_runs) {
  constexpr size_t kMost = 2000, kLeast = 300, kTogether = 20000;
  return std::clamp(kTogether / std::max<size_t>(1, num_runs), kLeast, kMost);
}

std::string report_page(const std::vector<RunRecord>& runs) {
  const std::vector<Chart> charts = charts_of(runs);
  // A script of the page runs only with this word, which nobody knows who wrote a run's files.
  const std::string word = random_id();
  double steps = 0, tokens = 0;
  for (const RunRecord& run : runs) {
    steps += run.step;
    tokens += run.tokens;
  }
  std::string now = utc_timestamp().substr(0, 16);
  now[10] = ' ';
  return str(kPageBeginning, head(runs, word), "<body><header><h1>", escape_html(title_of(runs)),
             "</h1><p>", format_count(steps), " steps, ", format_count(tokens),
             " tokens in all · written ", now,
             " UTC by lmtrain " LMTRAIN_VERSION "</p></header>\n<main>", notes_list(runs),
             "<section><h2>Summary</h2>", summary_table(runs), "</section>\n",
             curves_section(charts, runs), seeds_section(runs), settings_section(runs),
             samples_section(runs), events_section(runs), configs_section(runs), "</main>\n",
             "<script type=\"application/json\" id=\"report-data\">",
             json_for_script(data_json(charts, runs)), "</script>\n<script nonce=\"", word, "\">",
             kPageScript, "</script></body></html>\n");
}

}  // namespace lmtrain
