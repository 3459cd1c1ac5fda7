// What a run leaves for people and programs: the fields of every file, in the contract's order.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <set>

#include "e2e/references.h"

namespace lmtrain::testing {
namespace {

namespace fs = std::filesystem;
using Names = std::vector<std::string>;

TEST(Outputs, Metrics) {
  int64_t step = 0;
  int64_t tokens = 0;
  double elapsed = 0;
  std::set<int64_t> evaluated;
  for (const Json& line : reference().run.metrics()) {
    if (line.contains("eval_loss")) {
      EXPECT_EQ(field_names(line),
                (Names{"step", "tokens", "eval_loss", "eval_perplexity", "eval_bits_per_byte",
                       "eval_loss/length_16", "eval_loss/length_64"}));
      EXPECT_EQ(line.at("step"), step);
      EXPECT_EQ(line.at("tokens"), tokens);
      EXPECT_TRUE(evaluated.insert(step).second) << "evaluated twice at " << step;
      continue;
    }
    EXPECT_EQ(field_names(line), (Names{"step", "tokens", "loss", "grad_norm", "lr", "seq_len",
                                        "tokens_per_second", "mfu", "elapsed"}));
    EXPECT_EQ(line.at("step"), ++step);  // line n is update n
    EXPECT_GT(line.at("tokens"), tokens);
    EXPECT_LE(line.at("tokens"), tokens + 256);
    tokens = line.at("tokens");
    EXPECT_GT(line.at("elapsed"), elapsed);
    elapsed = line.at("elapsed");
    const int64_t length = line.at("seq_len");
    EXPECT_TRUE(length == 16 || length == 32 || length == 64) << length;
    EXPECT_TRUE(line.at("mfu").is_null());
    EXPECT_GT(line.at("loss"), 0.0);
    EXPECT_GT(line.at("grad_norm"), 0.0);
    EXPECT_GT(line.at("tokens_per_second"), 0.0);
  }
  EXPECT_EQ(step, 40);
  EXPECT_EQ(evaluated, (std::set<int64_t>{0, 10, 20, 30, 40}));
}

TEST(Outputs, LearningRateIsThatOfTheSchedule) {
  // Warm-up over 4 of 40 steps from 1 %, then a cosine to a tenth.
  const Reference& made = reference({{"lr_schedule", {{"warmup", 4}}}});
  constexpr double kPeak = 3e-3;
  int t = 0;
  for (const Json& line : made.run.metrics()) {
    if (!line.contains("lr")) continue;
    const double warm = kPeak * (0.01 + 0.99 * t / 4.0);
    const double p = (t - 4) / 36.0;
    const double cool = 0.1 * kPeak + 0.9 * kPeak * (1 + std::cos(M_PI * p)) / 2;
    EXPECT_NEAR(line.at("lr"), t < 4 ? warm : cool, 1e-15) << t;
    ++t;
  }
}

TEST(Outputs, EventsAndStatus) {
  const RunDir& run = reference().run;
  Names events;
  for (const Json& event : run.events()) {
    const Names names = field_names(event);
    ASSERT_GE(names.size(), 5U);
    EXPECT_EQ(Names(names.begin(), names.begin() + 5),
              (Names{"time", "event", "step", "batch", "reason"}));
    events.push_back(event.at("event"));
  }
  EXPECT_EQ(events.front(), "start");
  EXPECT_EQ(events.back(), "end");
  const std::vector<Json> first_steps = run.events("first_step");
  ASSERT_EQ(first_steps.size(), 1U);
  EXPECT_EQ(first_steps[0].at("step"), 1);
  double seconds = 0;
  for (const auto& [phase, part] : first_steps[0].at("phases").items()) {
    EXPECT_GE(part.get<double>(), 0) << phase;
    seconds += part.get<double>();
  }
  EXPECT_NEAR(first_steps[0].at("seconds"), seconds, 0.01);  // each is rounded to 0.001
  EXPECT_EQ(field_names(first_steps[0].at("phases")),
            (Names{"program", "config", "device", "data", "settings", "model", "weights", "order",
                   "run folder", "trial", "evaluation", "step"}));
  const std::vector<Json> saves = run.events("save");
  ASSERT_EQ(saves.size(), 14U);  // every third step and the last
  for (size_t i = 0; i < saves.size(); ++i) {
    const int64_t step = std::min<int64_t>(40, 3 * static_cast<int64_t>(i + 1));
    EXPECT_EQ(saves[i].at("step"), step);
    EXPECT_EQ(saves[i].at("batch"), step);
    EXPECT_EQ(saves[i].at("checkpoint"), run.checkpoint(step).string());
  }

  const Json status = run.status();
  EXPECT_EQ(field_names(status), (Names{"state", "step", "tokens", "loss", "eval_loss", "exit_code",
                                        "checkpoint", "pid", "host", "updated"}));
  EXPECT_EQ(status.at("state"), "done");
  EXPECT_EQ(status.at("step"), 40);
  EXPECT_EQ(status.at("exit_code"), 0);
  EXPECT_EQ(status.at("checkpoint"), run.checkpoint(40).string());
}

TEST(Outputs, CheckpointsHoldTheFilesOfTheContract) {
  const RunDir& run = reference().run;
  EXPECT_EQ(run.checkpoint_steps(), (std::vector<int64_t>{36, 39, 40}));  // keep: 3
  std::set<std::string> names;
  for (const auto& entry : fs::directory_iterator(run.newest_checkpoint())) {
    names.insert(entry.path().filename());
  }
  EXPECT_EQ(names, (std::set<std::string>{"model.safetensors", "config.json", "tokenizer.model",
                                          "tokenizer_config.json", "generation_config.json",
                                          "optimizer.safetensors", "state.json", "manifest.json",
                                          "README.md", "curve.svg"}));
  const Json config = Json::parse(read_text(run.newest_checkpoint() / "config.json"));
  EXPECT_EQ(config.at("max_position_embeddings"), 64);
  const Json tokenizer = Json::parse(read_text(run.newest_checkpoint() / "tokenizer_config.json"));
  EXPECT_EQ(tokenizer.at("model_max_length"), 64);
  EXPECT_EQ(read_text(run.newest_checkpoint() / "tokenizer.model"),
            read_text(LMTRAIN_SOURCE_DIR "/tests/reference/tokenizer/tokenizer.model"));
}

// The card is of a run that is done; it names no folder of the machine, and the manifest not it.
TEST(Outputs, CheckpointsOfARunThatIsDoneHaveAModelCard) {
  const RunDir& run = reference().run;
  for (const int64_t step : run.checkpoint_steps()) {
    const std::string card = read_text(run.checkpoint(step) / "README.md");
    EXPECT_TRUE(card.starts_with("---\n# Written by lmtrain.")) << card;
    for (const char* part : {"library_name: transformers", "| Trained on | ", "## Data"})
      EXPECT_NE(card.find(part), std::string::npos) << part << card;
    EXPECT_EQ(card.find(run.folder().parent_path().string()), std::string::npos) << card;
    EXPECT_EQ(Json::parse(read_text(run.checkpoint(step) / "manifest.json"))
                  .at("files")
                  .contains("README.md"),
              false);
  }
  EXPECT_NE(read_text(run.newest_checkpoint() / "README.md").find("type: bits_per_byte"),
            std::string::npos);
  // A resume of the finished run writes them anew, and leaves what a person has written.
  const RunDir copy = run.copy(reference().fresh("cards"));
  const fs::path first = copy.checkpoint(36) / "README.md", last = copy.newest_checkpoint();
  fs::remove(first);
  std::ofstream(last / "README.md") << "mine";
  const ProcessResult result = lmtrain({"resume", copy.path(), "--set", "card.license=apache-2.0"});
  EXPECT_EQ(result.exit_code, 0) << result;
  EXPECT_NE(read_text(first).find("license: \"apache-2.0\""), std::string::npos);
  EXPECT_EQ(read_text(last / "README.md"), "mine");
}

TEST(Outputs, TrainPrintsTheFinalStatusAlone) {
  const RunDir run(reference().fresh("printed"));
  const ProcessResult result = lmtrain({"train", reference().config, "--run-dir", run.path()});
  EXPECT_EQ(std::count(result.out.begin(), result.out.end(), '\n'), 1) << result;
  EXPECT_EQ(Json::parse(result.out), run.status());
  EXPECT_NE(result.err.find("step 10"), std::string::npos) << result;
  EXPECT_NE(result.err.find("held-out loss"), std::string::npos) << result;
}

TEST(Outputs, RunConfigIsResolvedAndStandsAlone) {
  const Reference& made = reference();
  const std::string path = (made.run.folder() / "config.json").string();
  const Json config = Json::parse(read_text(path));
  EXPECT_EQ(config.at("device"), "cpu");
  EXPECT_EQ(config.at("threads"), 1);
  EXPECT_EQ(config.at("precision"), "fp32");
  EXPECT_EQ(config.at("compile"), "script");
  EXPECT_TRUE(config.at("batch").at("micro_tokens").is_number());
  EXPECT_EQ(config.at("model").at("vocab_size"), 384);
  for (const Json& value :
       {config.at("run_dir"), config.at("tokenizer").at("model"), config.at("data").at("cache_dir"),
        config.at("data").at("train").at(0).at("path"),
        config.at("data").at("eval").at(0).at("path")}) {
    EXPECT_TRUE(value.get<std::string>().starts_with("/")) << value;
  }
  // It says the same from any folder, and once more through `config show`.
  ProcessOptions elsewhere;
  elsewhere.cwd = "/";
  const ProcessResult shown = lmtrain({"config", "show", path}, elsewhere);
  ASSERT_EQ(shown.exit_code, 0) << shown;
  const std::string again = made.workspace.write("shown.json", shown.out);
  const ProcessResult shown_again = lmtrain({"config", "show", again}, elsewhere);
  const auto without_notes = [](const ProcessResult& result) {
    return Json::parse(result.out, nullptr, true, /*ignore_comments=*/true);
  };
  EXPECT_EQ(without_notes(shown_again), without_notes(shown));

  // And it trains the same run.
  const RunDir run(made.fresh("from its config"));
  const ProcessResult trained = lmtrain({"train", path, "--run-dir", run.path()}, elsewhere);
  EXPECT_EQ(trained.exit_code, 0) << trained;
  EXPECT_EQ(difference(run, made.run), "");
}

TEST(Outputs, DefaultRunFolderIsTheName) {
  const Workspace workspace;
  const std::string config = workspace.config(
      {{"data", {{"train", {LMTRAIN_SOURCE_DIR "/data/sample"}}, {"eval", nullptr}}},
       {"tokenizer", {{"model", LMTRAIN_SOURCE_DIR "/tests/reference/tokenizer/tokenizer.model"}}},
       {"train", {{"steps", 2}}}},
      "my-run.json");
  ProcessOptions options;
  options.cwd = workspace / ".";
  const ProcessResult result = lmtrain({"train", config}, options);
  EXPECT_EQ(result.exit_code, 0) << result;
  EXPECT_TRUE(fs::exists(workspace / "runs/my-run/config.json"));
}

TEST(Outputs, DryRunLeavesNoRun) {
  const Workspace workspace;
  const fs::path folder = workspace / "run";
  const ProcessResult result =
      lmtrain({"train", workspace.config(), "--run-dir", folder.string(), "--dry-run"});
  EXPECT_EQ(result.exit_code, 0) << result;
  EXPECT_NE(result.out.find("40 steps"), std::string::npos) << result;
  EXPECT_FALSE(fs::exists(folder));
}

TEST(Outputs, OneAndTwoThreads) {
  const RunDir& one = reference().run;
  const Workspace workspace;
  ProcessOptions options;
  options.env["OMP_NUM_THREADS"] = "2";
  const RunDir two(workspace / "run");
  const ProcessResult result =
      lmtrain({"train", workspace.config({{"threads", "auto"}}), "--run-dir", two.path()}, options);
  ASSERT_EQ(result.exit_code, 0) << result;
  EXPECT_EQ(Json::parse(read_text(two.folder() / "config.json")).at("threads"), 2);
  // Sums may round differently; the run is the same.
  EXPECT_NEAR(two.status().at("eval_loss"), one.status().at("eval_loss").get<double>(), 1e-3);
}

TEST(Outputs, EagerAndScriptAgree) {
  const Reference& eager = reference({{"compile", "eager"}});
  const Json a = eager.run.status();
  const Json b = reference().run.status();
  EXPECT_NEAR(a.at("eval_loss"), b.at("eval_loss").get<double>(), 1e-4);
}

TEST(Outputs, GraphOnACpuIsScript) {
  const Reference& graph = reference({{"compile", "graph"}});
  const Json config = Json::parse(read_text(graph.run.folder() / "config.json"));
  EXPECT_EQ(config.at("compile"), "script");
  EXPECT_EQ(difference(graph.run, reference().run), "");
}

// From a HF folder: its weights, its tokenizer, step 0.
TEST(Outputs, InitFromBeginsWithTheModelItNames) {
  for (const char* model : {"hf", "hf_sharded"}) {
    const std::string folder = std::string(LMTRAIN_SOURCE_DIR "/tests/reference/eval/") + model;
    const Workspace workspace;
    const std::string config =
        workspace.config({{"init_from", folder}, {"model", nullptr}, {"tokenizer", nullptr}});
    const RunDir run = train(config, workspace / "run");
    const ProcessResult evaluated =
        lmtrain({"eval", folder, "--data", "data/sample.jsonl", "--max-length", "64", "--json"});
    EXPECT_NEAR(run.metrics().front().at("eval_loss"),
                Json::parse(evaluated.out).at("loss").get<double>(), 1e-6);
    EXPECT_EQ(run.metrics().front().at("step"), 0);
    EXPECT_LT(run.status().at("eval_loss"), run.metrics().front().at("eval_loss").get<double>());
  }
}

// From a checkpoint of a run: no step, no optimizer.
TEST(Outputs, InitFromACheckpointTakesWeightsOnly) {
  const Reference& first = reference();
  const std::string config = first.workspace.config(
      {{"init_from", first.run.newest_checkpoint().string()}, {"model", nullptr}}, "second.json");
  const RunDir run = train(config, first.fresh("second"));
  EXPECT_NEAR(run.metrics().front().at("eval_loss"),
              first.run.status().at("eval_loss").get<double>(), 1e-6);
  EXPECT_EQ(run.metrics().at(1).at("step"), 1);
  EXPECT_EQ(run.status().at("step"), 40);
}

}  // namespace
}  // namespace lmtrain::testing
