#include "report/page.h"

#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <regex>

#include "report/runs_of_test.h"

namespace lmtrain {
namespace {

using testing::finished_run;

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST(Tables, TheSummarySaysWhatCameOfARun) {
  RunRecord run = finished_run("a", {{"seed", 1}}, 3.25);
  run.num_parameters = 7'400'000;
  run.events.peak_memory = 3.0 * (1 << 20);
  run.events.counts = {{"skip", 3}, {"save", 4}};
  const std::string table = summary_table({run});
  for (const char* text :
       {"done", "3.2500", "0.5000", "2.00K <small>20 steps", "10s <small>200 tokens/s", "7.40M",
        "3.0 MiB", "skip 3", ">step_00000020<"}) {
    EXPECT_TRUE(contains(table, text)) << text << "\n" << table;
  }
  run.elapsed = 0.43;
  EXPECT_TRUE(contains(summary_table({run}), "<td>0.4s <small>")) << summary_table({run});
  EXPECT_FALSE(contains(table, "save 4"));
  EXPECT_FALSE(contains(table, "lowest"));  // of one run
}

TEST(Tables, TheLowestHeldOutLossIsMarkedAndAnEarlierBestIsNamed) {
  RunRecord worse = finished_run("b", {{"seed", 2}}, 3.5);
  worse.evaluations[0] = {"eval_loss", {10, 20}, {1000, 2000}, {5, 10}, {3.4, 3.5}};
  const std::string table = summary_table({finished_run("a", {{"seed", 1}}, 3.25), worse});
  EXPECT_TRUE(contains(table, "<strong title=\"the lowest\">3.2500</strong>"));
  EXPECT_FALSE(contains(table, "\"the lowest\">3.5"));
  EXPECT_TRUE(contains(table, "3.5000 <small>best 3.4000 at step 10</small>"));
}

TEST(Tables, ARunWithoutFiguresHasDashes) {
  RunRecord run;
  run.label = "new";
  run.loss = std::nan("");
  const std::string table = summary_table({run});
  EXPECT_TRUE(contains(table, "not known"));
  EXPECT_TRUE(contains(table, "–"));
  EXPECT_FALSE(contains(table, "nan"));
  EXPECT_EQ(seeds_section({run}), "");
  EXPECT_EQ(events_section({run}), "");
  EXPECT_EQ(configs_section({run}), "");
}

TEST(Tables, SettingsThatDifferHaveARowEach) {
  const std::vector<RunRecord> runs = {finished_run("a", {{"lr", 1}, {"x", 5}}, 3),
                                       finished_run("b", {{"lr", 2}, {"x", 5}}, 3)};
  const std::string section = settings_section(runs);
  EXPECT_TRUE(contains(section, "<code>lr</code></th><td>1</td><td>2</td>"));
  EXPECT_FALSE(contains(section, "<code>x</code>"));
  EXPECT_TRUE(contains(settings_section({runs[0], runs[0]}), "None"));
  EXPECT_EQ(settings_section({runs[0]}), "");
}

TEST(Tables, SeedsAreComparedInPairs) {
  const std::vector<RunRecord> runs = {finished_run("a", {{"seed", 1}, {"lr", 1}}, 3.0),
                                       finished_run("b", {{"seed", 2}, {"lr", 1}}, 3.2),
                                       finished_run("c", {{"seed", 1}, {"lr", 2}}, 2.9),
                                       finished_run("d", {{"seed", 2}, {"lr", 2}}, 3.0)};
  const std::string section = seeds_section(runs);
  EXPECT_TRUE(contains(section, "<strong>A</strong> lr 1")) << section;
  EXPECT_TRUE(contains(section, "<td>3.1000</td><td>± 0.1000</td>")) << section;
  EXPECT_TRUE(contains(section, "<strong>B</strong> minus <strong>A</strong>")) << section;
  EXPECT_TRUE(contains(section, "<td>-0.1500</td><td>± 0.0500</td>")) << section;
  EXPECT_TRUE(contains(section, "-0.1000, -0.2000")) << section;
  EXPECT_EQ(seeds_section({runs[0], runs[2]}), "");
}

TEST(Tables, EventsAreListedAndWhatIsLeftOutIsSaid) {
  RunRecord run = finished_run("a", {{"seed", 1}}, 3);
  run.events.events = {{"2026-11-21T10:47:02.000Z", "skip", 7, "not finite"}};
  run.events.counts = {{"skip", 900}};
  const std::string section = events_section({run});
  EXPECT_TRUE(contains(section, "<td>7</td><td>skip</td><td>not finite</td>")) << section;
  EXPECT_TRUE(contains(section, "1 of 900")) << section;
}

TEST(Tables, TheBestCheckpointIsNamedWhereItIsNotTheNewest) {
  RunRecord run = finished_run("a", {{"seed", 1}}, 3);
  run.best_checkpoint = run.checkpoint;
  EXPECT_FALSE(contains(summary_table({run}), "<small>best <code"));
  run.best_checkpoint = "/runs/a/checkpoints/step_00000010";
  EXPECT_TRUE(contains(summary_table({run}),
                       "step_00000020</code> <small>best <code "
                       "title=\"/runs/a/checkpoints/step_00000010\">step_00000010</code></small>"))
      << summary_table({run});
}

TEST(Tables, SamplesHaveARowEach) {
  RunRecord run = finished_run("a", {{"seed", 1}}, 3);
  EXPECT_EQ(samples_section({run}), "");
  run.events.samples = {{20, "def f(x):", " return <x>"}};
  const std::string section = samples_section({run});
  EXPECT_TRUE(contains(section, "<td>20</td><td>def f(x):</td><td> return &lt;x&gt;</td>"))
      << section;
}

TEST(Tables, AllTextOfRunsIsEscaped) {
  const std::string bad = "<img src=x onerror=alert(1)>'\"&";
  RunRecord run = finished_run(bad, {{bad, bad}, {"seed", 1}}, 3);
  RunRecord other = finished_run("b", {{bad, 2}, {"seed", 2}}, 3);
  run.state = run.updated = run.checkpoint = bad;
  run.best_checkpoint = "/runs/" + bad + "2";
  run.folder = "/runs/" + bad;
  run.notes = {bad};
  run.events.device = run.events.precision = bad;
  run.events.events = {{bad, bad, 1, bad}};
  run.events.counts = {{bad, 5}};
  run.events.samples = {{1, bad, bad}};
  const std::vector<RunRecord> runs = {run, other};
  for (const std::string& html :
       {summary_table(runs), notes_list(runs), settings_section(runs), seeds_section(runs),
        samples_section(runs), events_section(runs), configs_section(runs)}) {
    EXPECT_FALSE(contains(html, "<img")) << html;
    EXPECT_FALSE(contains(html, "'\"&")) << html;
  }
}

using testing::finished_run;
using Json = nlohmann::json;

Json data_of(const std::string& page) {
  const std::string open = "id=\"report-data\">";
  const size_t begin = page.find(open) + open.size();
  return Json::parse(page.substr(begin, page.find("</script>", begin) - begin));
}

TEST(Page, HoldsEveryCurveAndTable) {
  const std::vector<RunRecord> runs = {finished_run("a", {{"seed", 1}}, 3.0),
                                       finished_run("b", {{"seed", 2}}, 3.1)};
  const std::string page = report_page(runs);
  EXPECT_TRUE(page.starts_with(kPageBeginning));
  EXPECT_TRUE(page.ends_with("</body></html>\n"));
  for (const char* title :
       {"Training loss", "Held-out loss", "Learning rate", "Gradient norm", "Throughput",
        "Sequence length", "Summary", "Seeds", "Settings that differ", "All settings"}) {
    EXPECT_NE(page.find(title), std::string::npos) << title;
  }
  const Json data = data_of(page);
  ASSERT_EQ(data.at("runs").size(), 2U);
  ASSERT_EQ(data.at("charts").size(), 6U);
  for (const Json& run : data.at("runs")) {
    EXPECT_TRUE(run.at("updates").at("columns").at("loss").contains("mean"));
    EXPECT_TRUE(run.at("evaluations").at("eval_loss").contains("step"));
    // Twenty values of four bytes.
    EXPECT_EQ(run.at("updates").at("step").get<std::string>().size(), 108U);
  }
}

TEST(Page, GroupsAreToldWhereThereAreSeveral) {
  const auto groups_of = [](const std::vector<RunRecord>& runs) {
    const Json data = data_of(report_page(runs));
    std::string groups;
    for (const Json& run : data.at("runs")) groups += run.at("group").dump();
    return groups;
  };
  const RunRecord a = finished_run("a", {{"seed", 1}, {"lr", 1}}, 3.0),
                  b = finished_run("b", {{"seed", 2}, {"lr", 1}}, 3.1),
                  c = finished_run("c", {{"seed", 1}, {"lr", 2}}, 3.2);
  EXPECT_EQ(groups_of({a, c, b}), "010");
  EXPECT_EQ(groups_of({a, b}), "nullnull");
  EXPECT_EQ(groups_of({a, c}), "nullnull");
}

TEST(Page, LoadsNothing) {
  const std::string page = report_page({finished_run("a", {{"seed", 1}}, 3.0)});
  EXPECT_EQ(page.find("://"), std::string::npos);
  for (const char* loader : {" src=", " href=", "url(", "@import", "fetch(", "XMLHttpRequest",
                             "import(", "WebSocket", "<link", "<iframe", "<img"}) {
    EXPECT_EQ(page.find(loader), std::string::npos) << loader;
  }
  EXPECT_NE(page.find("default-src 'none'"), std::string::npos);
}

TEST(Page, OnlyItsOwnScriptRuns) {
  const std::string bad = "</script><script>alert(1)</script>";
  RunRecord run = finished_run(bad, {{bad, bad}}, 3.0);
  run.events.events = {{"", bad, 1, bad}};
  run.events.counts = {{bad, 1}};
  run.evaluations.push_back({bad, {20}, {2000}, {10}, {1.0}});
  const std::string page = report_page({run});
  EXPECT_EQ(page.find("<script>alert"), std::string::npos);
  EXPECT_EQ(data_of(page).at("runs")[0].at("label"), bad);
  // The policy's word is that of the script, and new in every page.
  const std::regex pattern("script-src 'nonce-([0-9a-f]{32})'");
  std::smatch first, second;
  ASSERT_TRUE(std::regex_search(page, first, pattern));
  EXPECT_NE(page.find("<script nonce=\"" + first[1].str() + "\">"), std::string::npos);
  const std::string other = report_page({run});
  ASSERT_TRUE(std::regex_search(other, second, pattern));
  EXPECT_NE(first[1], second[1]);
}

TEST(Page, ARunWithoutAnUpdateHasAPage) {
  RunRecord run;
  run.label = "new";
  run.notes = {"there is no update in metrics.jsonl yet"};
  const std::string page = report_page({run});
  EXPECT_NE(page.find("There is no update or evaluation yet."), std::string::npos);
  EXPECT_NE(page.find("new: there is no update in metrics.jsonl yet"), std::string::npos);
}

TEST(Page, StaysSmallForManyRuns) {
  EXPECT_EQ(most_buckets(1), 2000U);
  EXPECT_EQ(most_buckets(10), 2000U);
  EXPECT_EQ(most_buckets(40), 500U);
  EXPECT_EQ(most_buckets(1000), 300U);
}

}  // namespace

}  // namespace lmtrain
