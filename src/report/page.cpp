#include "report/page.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/random.h"
#include "base/text.h"
#include "report/charts.h"
#include "report/html.h"
#include "report/seed_groups.h"
#include "report/static_chart.h"

namespace lmtrain {

namespace {

// Makes a table in a box that scrolls sideways. All cells are HTML: the caller escapes. The first
// cell of each row is its heading.
class HtmlTable {
 public:
  HtmlTable(std::vector<std::string> header) : header_(std::move(header)) {}
  void add_row(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }
  // Returns the table with the class `name`.
  std::string html(const std::string& name) const;

 private:
  std::vector<std::string> header_;
  std::vector<std::vector<std::string>> rows_;
};

std::string HtmlTable::html(const std::string& name) const {
  std::string text = str("<div class=\"scroll\"><table class=\"", name, "\"><thead><tr>");
  for (const std::string& cell : header_) text += str("<th scope=\"col\">", cell, "</th>");
  text += "</tr></thead><tbody>";
  for (const std::vector<std::string>& row : rows_) {
    text += "<tr>";
    for (size_t i = 0; i < row.size(); ++i) {
      text += i == 0 ? str("<th scope=\"row\">", row[i], "</th>") : str("<td>", row[i], "</td>");
    }
    text += "</tr>\n";
  }
  return text + "</tbody></table></div>";
}

// Returns a <section> of `content` under the heading `title`. Both are HTML: the caller escapes.
std::string section(const std::string& title, const std::string& content) {
  return str("<section><h2>", title, "</h2>", content, "</section>\n");
}

// Returns a sample of the line by which charts draw run i, and the run's label. The tooltip is its
// folder.
std::string run_name(const RunRecord& run, size_t i) {
  return str("<span class=\"run\" title=\"", escape_html(run.folder.string()),
             "\"><svg class=\"swatch\" data-run=\"", i,
             "\" viewBox=\"0 0 22 8\"><path class=\"line ", run_classes(i),
             "\" d=\"M0 4H22\"/></svg>", escape_html(run.label), "</span>");
}

const std::string kNone = "–";

std::string loss_text(double loss) { return std::isfinite(loss) ? printed("%.4f", loss) : kNone; }

std::string count_text(double count) { return count > 0 ? format_count(count) : kNone; }

std::string time_spent(double seconds) {
  if (!(seconds > 0)) return kNone;
  return seconds < 10 ? printed("%.1fs", seconds) : format_duration(seconds);
}

// Returns a figure with a related one in small letters below.
std::string with_small(const std::string& figure, const std::string& small) {
  return figure == kNone ? kNone : str(figure, " <small>", small, "</small>");
}

struct Best {
  double loss;
  double step;
};

std::optional<Best> best_held_out(const RunRecord& run) {
  const EvaluationColumn* column = evaluation_of(run, "eval_loss");
  std::optional<Best> best;
  for (size_t i = 0; column != nullptr && i < column->value.size(); ++i) {
    if (std::isfinite(column->value[i]) && (!best || column->value[i] < best->loss))
      best = {column->value[i], column->step[i]};
  }
  return best;
}

double last_of(const RunRecord& run, const std::string& key) {
  const EvaluationColumn* column = evaluation_of(run, key);
  return column == nullptr || column->value.empty() ? std::nan("") : column->value.back();
}

// Returns the time of a file as "2026-11-21 10:47 UTC".
std::string time_text(const std::string& time) {
  std::string text = time.substr(0, 16);
  std::replace(text.begin(), text.end(), 'T', ' ');
  return escape_html(text) + " UTC";
}

std::string state_text(const RunRecord& run) {
  if (run.state.empty()) return "not known";
  std::string text =
      str("<span class=\"state ", escape_html(run.state), "\">", escape_html(run.state), "</span>");
  if (run.state == "running") return with_small(text, "as of " + time_text(run.updated));
  return text;
}

std::string held_out_text(const RunRecord& run, double lowest) {
  const double loss = last_of(run, "eval_loss");
  std::string text = loss_text(loss);
  if (loss == lowest) text = "<strong title=\"the lowest\">" + text + "</strong>";
  const std::optional<Best> best = best_held_out(run);
  return best && best->loss < loss ? with_small(text, str("best ", loss_text(best->loss),
                                                          " at step ", printed("%.0f", best->step)))
                                   : text;
}

std::string incidents_text(const RunRecord& run) {
  std::vector<std::string> parts;
  for (const char* kind : {"skip", "rollback", "spike", "oom_fit", "save_failed", "resume"}) {
    const auto count = run.events.counts.find(kind);
    if (count != run.events.counts.end()) parts.push_back(str(kind, " ", count->second));
  }
  return parts.empty() ? kNone : join(parts, ", ");
}

std::string checkpoint_text(const RunRecord& run) {
  if (run.checkpoint.empty()) return kNone;
  const auto name_of = [](const std::string& path) {
    const std::string name = std::filesystem::path(path).filename().string();
    return str("<code title=\"", escape_html(path), "\">", escape_html(name), "</code>");
  };
  const std::string newest = name_of(run.checkpoint);
  const std::string& best = run.best_checkpoint;
  const bool is_other = !best.empty() && std::filesystem::path(best).filename() !=
                                             std::filesystem::path(run.checkpoint).filename();
  return is_other ? with_small(newest, "best " + name_of(best)) : newest;
}

std::string device_text(const RunRecord& run) {
  const std::string device = escape_html(run.events.device);
  return device.empty() ? kNone : with_small(device, escape_html(run.events.precision));
}

std::string signed_text(double value) {
  return std::isfinite(value) ? printed("%+.4f", value) : kNone;
}

std::string error_text(const MeanAndError& value) {
  return std::isfinite(value.standard_error) ? "± " + printed("%.4f", value.standard_error) : kNone;
}

}  // namespace

std::string summary_table(const std::vector<RunRecord>& runs) {
  double lowest = std::nan("");
  for (const RunRecord& run : runs) lowest = std::fmin(lowest, last_of(run, "eval_loss"));
  if (runs.size() < 2) lowest = std::nan("");
  HtmlTable table = {{"Run", "State", "Held-out loss", "Bits per byte", "Training loss", "Tokens",
                      "Training time", "Parameters", "Peak memory", "Device", "Events",
                      "Checkpoint"}};
  for (size_t i = 0; i < runs.size(); ++i) {
    const RunRecord& run = runs[i];
    const double rate = run.elapsed > 0 ? run.tokens / run.elapsed : 0;
    const double parameters = static_cast<double>(run.num_parameters.value_or(0));
    const std::optional<double> memory = run.events.peak_memory;
    table.add_row(
        {run_name(run, i), state_text(run), held_out_text(run, lowest),
         loss_text(last_of(run, "eval_bits_per_byte")), loss_text(run.loss),
         with_small(count_text(run.tokens), count_text(run.step) + " steps"),
         with_small(time_spent(run.elapsed), count_text(rate) + " tokens/s"),
         count_text(parameters),
         memory ? format_bytes(static_cast<uint64_t>(std::clamp(*memory, 0.0, 1e18))) : kNone,
         device_text(run), incidents_text(run), checkpoint_text(run)});
  }
  return table.html("summary") +
         "<p class=\"hint\">Losses are in nats a target token. The held-out loss is that of the "
         "last evaluation; the training loss is the mean over the last 1 % of the updates. "
         "Evaluations and saves are not in the training time.</p>";
}

std::string notes_list(const std::vector<RunRecord>& runs) {
  std::string items;
  for (const RunRecord& run : runs)
    for (const std::string& note : run.notes)
      items += str("<li>", escape_html(run.label), ": ", escape_html(note), "</li>");
  return items.empty() ? "" : "<ul class=\"notes\">" + items + "</ul>";
}

std::string settings_section(const std::vector<RunRecord>& runs) {
  std::vector<FlatSettings> settings;
  settings.reserve(runs.size());
  for (const RunRecord& run : runs) settings.push_back(flatten_settings(run.settings));
  const std::vector<SettingsRow> rows = differing_settings(settings);
  if (runs.size() < 2) return "";
  if (rows.empty()) return section("Settings that differ", "<p>None: the configs are equal.</p>");
  std::vector<std::string> header = {"Setting"};
  for (size_t i = 0; i < runs.size(); ++i) header.push_back(run_name(runs[i], i));
  HtmlTable table(header);
  for (const SettingsRow& row : rows) {
    std::vector<std::string> cells = {str("<code>", escape_html(row.key), "</code>")};
    for (const std::string& value : row.values)
      cells.push_back(value.empty() ? kNone : escape_html(value));
    table.add_row(cells);
  }
  return section("Settings that differ", table.html("settings"));
}

std::string seeds_section(const std::vector<RunRecord>& runs) {
  const std::vector<SeedGroup> groups = seed_groups(runs);
  if (std::none_of(groups.begin(), groups.end(),
                   [](const SeedGroup& group) { return group.runs.size() > 1; })) {
    return "";
  }
  HtmlTable table = {{"Group", "Runs", "Seeds", "Held-out loss, mean", "Standard error"}};
  const auto letter_of = [](size_t i) {
    return str("<strong>", static_cast<char>('A' + i % 26), i < 26 ? "" : str(i / 26 + 1),
               "</strong>");
  };
  const auto seeds_text = [](const std::vector<int64_t>& seeds) {
    std::vector<std::string> texts;
    texts.reserve(seeds.size());
    for (const int64_t seed : seeds) texts.push_back(str(seed));
    return join(texts, ", ");
  };
  for (size_t i = 0; i < groups.size(); ++i) {
    std::vector<double> losses;
    for (const size_t run : groups[i].runs)
      losses.push_back(final_held_out_loss(runs[run]).value());
    const MeanAndError value = mean_and_error(losses);
    table.add_row({letter_of(i) + " " + escape_html(groups[i].name), str(groups[i].runs.size()),
                   seeds_text(groups[i].seeds), loss_text(value.mean), error_text(value)});
  }
  std::string content =
      "<p class=\"hint\">Runs of a group differ in their seed alone. Losses are those of the last "
      "evaluation, in nats a target token.</p>" +
      table.html("seeds");
  const std::vector<PairedDifference> pairs = paired_differences(groups, runs);
  if (!pairs.empty()) {
    HtmlTable differences = {
        {"Difference", "Pairs", "Mean", "Standard error", "Seeds", "Of each seed"}};
    for (const PairedDifference& pair : pairs) {
      const MeanAndError value = mean_and_error(pair.differences);
      std::vector<std::string> each;
      for (const double difference : pair.differences) each.push_back(signed_text(difference));
      differences.add_row({str(letter_of(pair.group), " minus ", letter_of(pair.base)),
                           str(value.count), signed_text(value.mean), error_text(value),
                           seeds_text(pair.seeds), join(each, ", ")});
    }
    content +=
        "<h3>Paired differences of the held-out loss</h3><p class=\"hint\">Runs of the same seed "
        "are compared; below zero, the group named first is better.</p>" +
        differences.html("pairs");
  }
  return section("Seeds", content);
}

std::string events_section(const std::vector<RunRecord>& runs) {
  HtmlTable table = {{"Run", "Step", "Event", "What happened", "Time"}};
  size_t num_events = 0;
  std::string left_out;
  for (size_t i = 0; i < runs.size(); ++i) {
    const RunEvents& events = runs[i].events;
    std::map<std::string, int64_t> shown;
    for (const RunEvent& event : events.events) {
      ++num_events;
      ++shown[event.kind];
      const std::string time = event.time.empty() ? kNone : time_text(event.time);
      table.add_row({run_name(runs[i], i), printed("%.0f", event.step), escape_html(event.kind),
                     escape_html(event.text), time});
    }
    for (const auto& [kind, count] : shown) {
      const int64_t all = events.counts.at(kind);
      if (all > count)
        left_out += str("<p class=\"hint\">", escape_html(runs[i].label), ": ", count, " of ", all,
                        " events ", escape_html(kind), " are shown, the first and the last.</p>");
    }
  }
  if (num_events == 0) return "";
  return section("Events", str("<details", num_events <= 12 ? " open" : "", "><summary>",
                               counted(static_cast<int64_t>(num_events), "event"), "</summary>",
                               table.html("events"), left_out, "</details>"));
}

std::string samples_section(const std::vector<RunRecord>& runs) {
  HtmlTable table = {{"Run", "Step", "Prompt", "What the model wrote"}};
  int64_t count = 0;
  for (size_t i = 0; i < runs.size(); ++i) {
    for (const SampleEvent& sample : runs[i].events.samples) {
      ++count;
      table.add_row({run_name(runs[i], i), printed("%.0f", sample.step), escape_html(sample.prompt),
                     escape_html(sample.text)});
    }
  }
  if (count == 0) return "";
  return section("Samples", str("<details open><summary>", counted(count, "sample"), "</summary>",
                                table.html("samples"), "</details>"));
}

std::string configs_section(const std::vector<RunRecord>& runs) {
  std::string content;
  for (size_t i = 0; i < runs.size(); ++i) {
    if (runs[i].settings.empty()) continue;
    const std::string text =
        runs[i].settings.dump(2, ' ', false, nlohmann::json::error_handler_t::replace);
    content += str("<details><summary>", run_name(runs[i], i), "</summary><pre>", escape_html(text),
                   "</pre></details>");
  }
  return content.empty() ? "" : section("All settings", content);
}

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
  if (charts.empty()) return section("Curves", "<p>There is no update or evaluation yet.</p>");
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
  return str(kPageBeginning, head(runs, word), "<body><header><h1>", escape_html(title_of(runs)),
             "</h1><p>", format_count(steps), " steps, ", format_count(tokens),
             " tokens in all · written ", time_text(utc_timestamp()),
             " by lmtrain " LMTRAIN_VERSION "</p></header>\n<main>", notes_list(runs),
             section("Summary", summary_table(runs)), curves_section(charts, runs),
             seeds_section(runs), settings_section(runs), samples_section(runs),
             events_section(runs), configs_section(runs), "</main>\n",
             "<script type=\"application/json\" id=\"report-data\">",
             json_for_script(data_json(charts, runs)), "</script>\n<script nonce=\"", word, "\">",
             kPageScript, "</script></body></html>\n");
}

}  // namespace lmtrain
