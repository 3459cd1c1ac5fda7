// lmtrain forecast: the ladder, its answers, and a run that is compared with them.
#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <set>

#include "base/file.h"
#include "e2e/workspace.h"
#include "formats/strict_json.h"

namespace lmtrain::testing {
namespace {

namespace fs = std::filesystem;

// Text, a tokenizer, and nothing of what the recipe chooses. The smallest rung takes a second.
std::string own_config(const Workspace& workspace) {
  Json config = Json::parse(R"({
    "threads": 1, "precision": "fp32",
    "tokenizer": {"model": "tests/reference/tokenizer/tokenizer.model"},
    "data": {"train": ["data/sample"], "eval": ["data/sample.jsonl"]},
    "sequence": {"max_length": 64, "min_length": 64},
    "model": {"size": "0.05M"}, "train": {"tokens": "600K"}, "eval": {"tokens": 500}
  })");
  config["data"]["cache_dir"] = (workspace / "cache").string();
  return workspace.write("own.json", config.dump());
}

std::vector<fs::path> rungs_in(const fs::path& folder) {
  std::vector<fs::path> rungs;
  std::error_code none;
  for (const auto& entry : fs::directory_iterator(folder / "rungs", none))
    rungs.push_back(entry.path());
  return rungs;
}

// The held-out losses that a run with a forecast was compared with.
std::vector<Json> comparisons(const RunDir& run) { return run.events("forecast"); }

// Adds runs with other rates for both seeds of the smallest rung, as a ladder of longer rungs has.
void add_other_rates(const fs::path& ladder) {
  Json fields = Json::parse(read_text(ladder));
  fields.erase("checksum");
  const Json rungs = fields.at("rungs");
  for (const size_t i : {0U, 1U}) {
    for (const double factor : {0.7, 1.4}) {
      Json rung = rungs.at(i);
      rung["lr_factor"] = factor;
      rung["name"] = rung.at("name").get<std::string>() + (factor < 1 ? "-lr0.7" : "-lr1.4");
      fields["rungs"].push_back(rung);
    }
  }
  write_file_atomic(ladder, checked_json_text(fields));
}

// The answers but for the memory, which is measured of each command's process.
Json without_memory(const ProcessResult& command) {
  Json json = Json::parse(command.out);
  for (Json& answer : json.at("answers")) answer.erase("memory");
  return json;
}

// The recipe gives short runs shorter rows, and losses of other rows could not be compared. A
// forecast that the config names is that of the run, and not of its rungs.
TEST(Forecast, RungsHaveTheRowsOfTheRunAndNoForecastOfTheirOwn) {
  const Workspace workspace;
  Json config = Json::parse(read_text(own_config(workspace)));
  config["sequence"].erase("max_length");
  std::string text;  // of more than a million tokens
  for (int i = 0; text.size() < 2'500'000; ++i)
    text += "Line " + std::to_string(i) + " is followed by " + std::to_string(i + 1) + ".\n";
  config["data"]["train"] = {workspace.write("text.txt", text)};
  config["train"]["tokens"] = "1M";  // rows of 256; a rung alone would have 128
  config["forecast"] = (workspace / "nowhere").string();
  const fs::path to = workspace / "forecast";
  LmtrainProcess process({"forecast", workspace.write("own.json", config.dump()), "--spend", "100%",
                          "--to", to.string()});
  const auto has_begun = [](const fs::path& rung) { return fs::exists(rung / "metrics.jsonl"); };
  ASSERT_TRUE(process.wait_until([&] {
    const std::vector<fs::path> rungs = rungs_in(to);
    return std::ranges::count_if(rungs, has_begun) >= 2;
  }));
  process.send(SIGKILL);
  process.wait();
  for (const fs::path& rung : rungs_in(to)) {
    if (!has_begun(rung)) continue;
    const Json kept = Json::parse(read_text(rung / "config.json"));
    EXPECT_EQ(kept.at("sequence").at("max_length"), 256) << rung;
    EXPECT_TRUE(kept.at("forecast").is_null()) << rung;
  }
}

TEST(Forecast, KilledItGoesOnAndARunIsComparedWithIt) {
  const Workspace workspace;
  const std::string config = own_config(workspace);
  const fs::path to = workspace / "forecast";
  const std::vector<std::string> command = {"forecast", config,      "--spend", "100%",
                                            "--to",     to.string(), "--json"};
  std::string first_status;
  {
    LmtrainProcess killed(command);
    ASSERT_TRUE(killed.wait_until([&] {
      for (const fs::path& rung : rungs_in(to)) {
        const RunDir run(rung);
        if (!fs::exists(rung / "status.json")) continue;
        const std::string status = read_text(rung / "status.json");
        if (status.find("\"done\"") != std::string::npos) first_status = status;
        if (status.find("\"running\"") != std::string::npos &&
            run.has_metrics_line("{\"step\":3,") && !first_status.empty())
          return true;
      }
      return false;
    }));
    killed.send(SIGKILL);
    killed.wait();
  }
  ASSERT_GE(rungs_in(to).size(), 2U);
  EXPECT_FALSE(fs::exists(to / "forecast.json"));
  add_other_rates(to / "ladder.json");

  const ProcessResult made = lmtrain(command);
  ASSERT_EQ(made.exit_code, 0) << made;
  const Json answers = Json::parse(made.out);
  const Json& answer = answers.at("answers").at(0);
  EXPECT_EQ(answer.at("tokens"), 600'000);
  for (const char* figure : {"loss", "bits_per_byte", "perplexity"}) {
    const Json& range = answer.at(figure);
    EXPECT_LT(range.at("low"), range.at("expected")) << figure;
    EXPECT_LT(range.at("expected"), range.at("high")) << figure;
  }
  EXPECT_LE(answer.at("best").at("loss").at("expected"), answer.at("loss").at("expected"));
  EXPECT_LT(answer.at("ten_times").at("loss").at("expected"),
            answer.at("twice").at("loss").at("expected"));
  EXPECT_GT(answer.at("seconds"), 0);
  EXPECT_GT(answer.at("memory"), 0);
  // Each rung is a run that is done, and the first was not trained again.
  std::set<std::string> statuses;
  for (const fs::path& rung : rungs_in(to)) {
    const RunDir run(rung);
    EXPECT_EQ(run.status().at("state"), "done") << rung;
    EXPECT_EQ(run.metrics().back().contains("eval_loss"), true) << rung;
    statuses.insert(read_text(rung / "status.json"));
  }
  EXPECT_EQ(statuses.count(first_status), 1U);
  EXPECT_GE(answers.at("rungs").size(), 4U);
  // Runs of other rates are beside them, and are no rungs of the law.
  size_t other_rates = 0;
  for (const fs::path& rung : rungs_in(to)) {
    const Json kept = Json::parse(read_text(rung / "config.json"));
    const bool is_other = rung.filename().string().find("-lr") != std::string::npos;
    EXPECT_EQ(kept.at("optimizer").at("lr_factor") != 1.0, is_other) << rung;
    other_rates += is_other ? 1 : 0;
  }
  EXPECT_EQ(answers.at("rungs").size() + other_rates, rungs_in(to).size());
  const Json& tried = answers.at("rates").at("tried");
  ASSERT_EQ(tried.size(), 2U) << answers.at("rates");
  EXPECT_EQ(tried.at(0).at("factor"), 0.7);
  EXPECT_EQ(tried.at(1).at("factor"), 1.4);
  for (const Json& factor : tried) {
    EXPECT_GE(factor.at("pairs"), 2);
    EXPECT_GT(factor.at("standard_error"), 0);
  }

  // Nothing is left to train: the same answers at once, and those of another question.
  const ProcessResult again = lmtrain(command);
  EXPECT_EQ(without_memory(again), without_memory(made)) << again;
  EXPECT_EQ(again.err.find("rung "), std::string::npos) << again;
  const ProcessResult other =
      lmtrain({"forecast", config, "--tokens", "1M", "--size", "0.3M", "--to", to.string()});
  ASSERT_EQ(other.exit_code, 0) << other;
  for (const char* word :
       {"--tokens 1M", "--size 0.3M", "best split", "perplexity", "law", "times 0.7: loss "})
    EXPECT_NE(other.out.find(word), std::string::npos) << word << other;
  EXPECT_EQ(other.err.find("rung "), std::string::npos) << other;

  // A run is compared with it, and shows both.
  const std::string forecast = "forecast=" + to.string();
  const std::vector<std::string> settings = {"--set", "train.tokens=20K", "--set", forecast};
  const auto with_settings = [&](std::vector<std::string> words) {
    words.insert(words.end(), settings.begin(), settings.end());
    return lmtrain(words);
  };
  const Json plan = Json::parse(with_settings({"plan", config, "--json"}).out);
  const RunDir run(workspace / "run");
  const ProcessResult trained = with_settings({"train", config, "--run-dir", run.path()});
  ASSERT_EQ(trained.exit_code, 0) << trained;
  const Json expected = Json::parse(read_text(run.folder() / "forecast.json"));
  EXPECT_EQ(expected.at("points").size(), 20U);
  EXPECT_EQ(expected.at("points").back().at("loss"), plan.at("forecast").at("eval_loss"));
  ASSERT_GE(comparisons(run).size(), 2U);
  EXPECT_NEAR(comparisons(run).back().at("eval_loss").get<double>(),
              run.status().at("eval_loss").get<double>(), 1e-12);
  const std::string page = (workspace / "report.html").string();
  ASSERT_EQ(lmtrain({"report", run.path(), "--to", page}).exit_code, 0);
  EXPECT_NE(read_text(page).find("dashed: as it was forecast"), std::string::npos);

  // A run that learns nothing leaves the interval, and says so.
  const RunDir broken(workspace / "broken");
  const ProcessResult lost =
      with_settings({"train", config, "--run-dir", broken.path(), "--set", "optimizer.lr=1e-7",
                     "--set", "batch.tokens=256", "--set", "eval.every=10%"});
  ASSERT_EQ(lost.exit_code, 0) << lost;
  EXPECT_NE(lost.err.find("above the forecast"), std::string::npos) << lost;
  EXPECT_NE(lost.err.find("warning"), std::string::npos) << lost;
  EXPECT_EQ(comparisons(broken).front().at("within"), false);

  // A rung that lost the end of its metrics does not count as a shorter one.
  const fs::path rung = rungs_in(to).front();
  const std::string metrics = read_text(rung / "metrics.jsonl");
  workspace.write("forecast/rungs/" + rung.filename().string() + "/metrics.jsonl",
                  metrics.substr(0, metrics.find('\n', metrics.size() / 2) + 1));
  const ProcessResult cut = lmtrain(command);
  EXPECT_NE(cut.err.find("lacks its last evaluation"), std::string::npos) << cut;
  fs::remove_all(rung);
  const ProcessResult mended = lmtrain(command);
  EXPECT_EQ(mended.exit_code, 0) << mended;
  EXPECT_EQ(Json::parse(mended.out).at("law"), answers.at("law"));

  // Another config does not go on with this ladder.
  const ProcessResult refused =
      lmtrain({"forecast", config, "--set", "seed=5", "--to", to.string()});
  EXPECT_EQ(refused.exit_code, 2) << refused;
  EXPECT_NE(refused.err.find("another config"), std::string::npos) << refused;
}

TEST(Forecast, IsRefusedWithReasons) {
  const Workspace workspace;
  const std::string config = own_config(workspace);
  const std::string to = (workspace / "forecast").string();
  const auto refused = [&](const std::vector<std::string>& command, const char* word) {
    const ProcessResult result = lmtrain(command);
    EXPECT_EQ(result.exit_code, 2) << result;
    EXPECT_NE(result.err.find(word), std::string::npos) << result;
    EXPECT_FALSE(fs::exists(to));
  };
  refused({"forecast", config, "--spend", "1%", "--to", to}, "--spend");
  refused({"forecast", config, "--spend", "2", "--to", to}, "percentage");
  refused({"forecast", config, "--time", "10m", "--to", to},
          "--time: \"10m\" is not allowed; give a time above 0, such as 90s, 30min or 2h; did you "
          "mean \"10min\"?");
  refused({"forecast", config, "--tokens", "few", "--to", to}, "such as 10M");
  refused({"forecast", config, "--size", "0", "--to", to}, "such as 3M");
  refused(
      {"forecast", config, "--set", "data.eval=null", "--set", "data.eval_fraction=0", "--to", to},
      "held-out");
  refused({"train", config, "--run-dir", (workspace / "run").string(), "--set", "forecast=" + to},
          "lmtrain forecast");
  workspace.write("other/file", "");
  refused({"forecast", config, "--to", (workspace / "other").string()}, "other files");
}

}  // namespace
}  // namespace lmtrain::testing
