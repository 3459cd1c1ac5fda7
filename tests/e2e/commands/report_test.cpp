// The page that `lmtrain report` writes about real runs.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "e2e/references.h"

namespace lmtrain::testing {
namespace {

namespace fs = std::filesystem;

Json data_of(const std::string& page) {
  const std::string open = "id=\"report-data\">";
  const size_t begin = page.find(open);
  if (begin == std::string::npos) return {};
  const size_t end = page.find("</script>", begin);
  return Json::parse(page.substr(begin + open.size(), end - begin - open.size()), nullptr,
                     /*allow_exceptions=*/false);
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST(Report, HoldsEveryCurveOfItsRunsAndLoadsNothing) {
  const Reference& made = reference();
  const Reference& other = reference({{"seed", 7}});
  const fs::path page_path = made.fresh("page");
  const ProcessResult result =
      lmtrain({"report", made.run.path(), other.run.path(), "--to", page_path.string()});
  ASSERT_EQ(result.exit_code, 0) << result;
  EXPECT_EQ(result.out, page_path.string() + "\n");
  EXPECT_FALSE(fs::exists(page_path.string() + ".tmp"));

  const std::string page = read_text(page_path);
  const Json data = data_of(page);
  ASSERT_EQ(data["runs"].size(), 2U) << page.substr(0, 2000);
  for (const Json& run : data["runs"]) {
    for (const char* key : {"loss", "grad_norm", "lr", "seq_len", "tokens_per_second"}) {
      // 40 steps, each a float in base64.
      EXPECT_EQ(run["updates"]["columns"][key]["mean"].get<std::string>().size(), 216U) << key;
    }
    // Evaluated at step 0 and every 10 steps.
    EXPECT_EQ(run["evaluations"]["eval_loss"]["mean"].get<std::string>().size(), 28U);
    EXPECT_EQ(run["events"].size(), 0U);  // nothing but routine
  }
  // Both are named "reference", in folders of their own.
  EXPECT_NE(data["runs"][0]["label"], data["runs"][1]["label"]);
  for (const char* text :
       {"Training loss", "Held-out loss", "Held-out bits per byte", "Learning rate",
        "Gradient norm", "Throughput", "Sequence length", "<code>seed</code>", "Standard error",
        ">step_00000040<", "<svg viewBox"}) {
    EXPECT_TRUE(contains(page, text)) << text;
  }
  // The parameters and the peak of memory are known.
  EXPECT_TRUE(contains(page, "<td>30.9K</td>")) << page.substr(page.find("<table"), 3000);
  EXPECT_TRUE(contains(page, " MiB</td>")) << page.substr(page.find("<table"), 3000);
  for (const char* loader : {"://", " src=", " href=", "url(", "@import", "<link", "<img"}) {
    EXPECT_FALSE(contains(page, loader)) << loader;
  }
}

TEST(Report, AnEarlierReportIsReplacedAndNothingElse) {
  const Reference& made = reference();
  const fs::path page = made.fresh("page");
  const std::vector<std::string> command = {"report", made.run.path(), "--to", page.string()};
  EXPECT_EQ(lmtrain(command).exit_code, 0);
  EXPECT_EQ(lmtrain(command).exit_code, 0);

  const auto refused = [&](const fs::path& to, const std::string& why) {
    const ProcessResult result = lmtrain({"report", made.run.path(), "--to", to.string()});
    EXPECT_EQ(result.exit_code, 2) << result;
    EXPECT_TRUE(contains(result.err, why)) << result;
  };
  const fs::path config = made.run.folder() / "config.json";
  const std::string before = read_text(config);
  refused(config, "is no report of lmtrain");
  EXPECT_EQ(read_text(config), before);
  refused(made.run.folder(), "is a folder; give a file in it");
  refused("/dev/null", "is a device");
  refused("", "give a path");
  refused(made.fresh("none") / "page.html", "mkdir -p");
}

TEST(Report, WhatHoldsNoRunIsRefusedByName) {
  const Reference& made = reference();
  const Workspace around;
  const RunDir inside = made.run.copy(around / "run");
  const fs::path page = made.fresh("page");
  const auto refused = [&](const fs::path& run, const std::string& why) {
    const ProcessResult result =
        lmtrain({"report", made.run.path(), run.string(), "--to", page.string()});
    EXPECT_EQ(result.exit_code, 2) << result;
    EXPECT_TRUE(contains(result.err, run.string())) << result;
    EXPECT_TRUE(contains(result.err, why)) << result;
    EXPECT_FALSE(fs::exists(page));
  };
  refused(made.fresh("nowhere"), "does not exist");
  refused(made.run.newest_checkpoint(), "lmtrain report " + made.run.path());
  const fs::path above = inside.folder().parent_path();
  const ProcessResult alone = lmtrain({"report", above.string(), "--to", page.string()});
  EXPECT_EQ(alone.exit_code, 2) << alone;
  EXPECT_TRUE(contains(alone.err, "lmtrain report " + inside.path())) << alone;
  EXPECT_EQ(lmtrain({"report"}).exit_code, 2);
}

// As runs/* gives them.
TEST(Report, BesideRunsWhatIsNoneIsLeftOut) {
  const std::filesystem::path none = reference().fresh("none");
  std::filesystem::create_directories(none);
  const std::string page = reference().fresh("page.html");
  const ProcessResult result = lmtrain({"report", none, reference().run.path(), "--to", page});
  EXPECT_EQ(result.exit_code, 0) << result;
  EXPECT_NE(result.err.find("it is left out"), std::string::npos) << result;
  EXPECT_EQ(lmtrain({"report", none, none, "--to", page}).exit_code, 2);
}

TEST(Report, TornFilesAndRunsUnderWayHaveAPage) {
  const RunDir torn = reference().run.copy(reference().fresh("torn"));
  const std::string metrics = read_text(torn.folder() / "metrics.jsonl");
  std::ofstream(torn.folder() / "metrics.jsonl") << metrics.substr(0, metrics.size() / 2);
  std::ofstream(torn.folder() / "events.jsonl", std::ios::app) << "{\"time\":";
  std::ofstream(torn.folder() / "status.json") << "{\"state\":\"runn";
  const RunDir begun = reference().run.copy(reference().fresh("begun"));
  for (const char* name : {"metrics.jsonl", "events.jsonl", "status.json"})
    fs::remove(begun.folder() / name);

  const fs::path page = reference().fresh("page");
  const ProcessResult result = lmtrain({"report", torn.path(), begun.path(), stopped_run().path(),
                                        stopped_run().path() + "/", "--to", page.string()});
  ASSERT_EQ(result.exit_code, 0) << result;
  EXPECT_TRUE(contains(result.err, "given twice")) << result;
  EXPECT_TRUE(contains(result.err, "status.json is damaged")) << result;
  const std::string text = read_text(page);
  EXPECT_EQ(data_of(text)["runs"].size(), 3U);
  EXPECT_TRUE(contains(text, "there is no update in metrics.jsonl yet"));
}

}  // namespace
}  // namespace lmtrain::testing
