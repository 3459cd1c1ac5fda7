#include "report/page.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <regex>

#include "report/runs_of_test.h"

namespace lmtrain {
namespace {

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
