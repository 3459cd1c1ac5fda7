// prepare and config, and what the program says of itself.
#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>

#include "e2e/references.h"

namespace lmtrain::testing {
namespace {

namespace fs = std::filesystem;

TEST(Commands, PrepareIsReusedByTrain) {
  const Workspace workspace;
  const std::string config =
      workspace.config({{"tokenizer", {{"model", nullptr}, {"train", {{"vocab_size", 450}}}}}});
  const ProcessResult prepared = lmtrain({"prepare", config});
  EXPECT_EQ(prepared.exit_code, 0) << prepared;
  for (const char* word : {"tokenizer", "train", "held out", "fingerprint"}) {
    EXPECT_NE(prepared.out.find(word), std::string::npos) << prepared;
  }
  const ProcessResult trained =
      lmtrain({"train", config, "--run-dir", (workspace / "run").string()});
  EXPECT_EQ(trained.exit_code, 0) << trained;
  EXPECT_EQ(trained.err.find("tokenizing"), std::string::npos) << trained;
  EXPECT_EQ(lmtrain({"prepare", config}).out, prepared.out);
}

TEST(Commands, PrepareStopsOnASignal) {
  const Workspace workspace;
  std::string text;
  for (int i = 0; text.size() < 40'000'000; ++i) text += "line " + std::to_string(i * 7919) + "\n";
  const std::string config = workspace.config(
      {{"data", {{"train", {workspace.write("large.txt", text)}}, {"format", "lines"}}}});
  LmtrainProcess process({"prepare", config});
  ASSERT_TRUE(process.wait_until([&] { return fs::exists(workspace / "cache/index"); }));
  sleep_ms(100);
  process.send(SIGTERM);
  const ProcessResult result = process.wait();
  EXPECT_EQ(result.exit_code, 128 + SIGTERM) << result;
  EXPECT_NE(result.err.find("stopped by signal"), std::string::npos) << result;
}

TEST(Commands, ConfigSchemaExplainShow) {
  const ProcessResult schema = lmtrain({"config", "schema"});
  EXPECT_EQ(schema.exit_code, 0) << schema;
  EXPECT_TRUE(Json::parse(schema.out).at("properties").contains("optimizer"));

  const ProcessResult explained = lmtrain({"config", "explain", "optimizer.lr"});
  EXPECT_EQ(explained.exit_code, 0) << explained;
  EXPECT_NE(explained.out.find("optimizer.lr"), std::string::npos) << explained;

  const Workspace workspace;
  const ProcessResult shown =
      lmtrain({"config", "show", workspace.config(), "--set", "optimizer.lr=0.5"});
  EXPECT_EQ(shown.exit_code, 0) << shown;
  const Json config = Json::parse(shown.out, nullptr, true, /*ignore_comments=*/true);
  EXPECT_EQ(config.at("optimizer").at("lr"), 0.5);
  EXPECT_EQ(config.at("clip").at("max"), 1.0);
}

TEST(Commands, WithoutWordsTheyAreListed) {
  for (const std::vector<std::string>& words :
       std::vector<std::vector<std::string>>{{}, {"config"}}) {
    std::vector<std::string> help = words;
    help.emplace_back("--help");
    const ProcessResult bare = lmtrain(words);
    EXPECT_EQ(bare.exit_code, 2) << bare;
    EXPECT_EQ(bare.out, "");
    EXPECT_TRUE(bare.err.starts_with("lmtrain: a command is missing; ")) << bare;
    EXPECT_NE(bare.err.find(lmtrain(help).out), std::string::npos) << bare;
  }
}

TEST(Commands, ExplainFirstSettingsAllAndByPages) {
  const ProcessResult first = lmtrain({"config", "explain"});
  EXPECT_EQ(first.exit_code, 0) << first;
  EXPECT_LE(std::count(first.out.begin(), first.out.end(), '\n'), 24) << first;
  const ProcessResult all = lmtrain({"config", "explain", "--all"});
  EXPECT_NE(all.out.find("checkpoint.keep_best\n"), std::string::npos) << all;
  EXPECT_EQ(lmtrain({"config", "explain", "optimizer.lr", "--all"}).exit_code, 2);
  if (!Terminal::available()) GTEST_SKIP() << "this system has no pseudo-terminals";
  const auto on_terminal = [](const std::string& pager) {
    ProcessOptions options{.env = {{"PAGER", pager}, {"TERM", "xterm"}}};
    options.out_terminal = 80;
    return lmtrain({"config", "explain", "--all"}, options);
  };
  const ProcessResult paged = on_terminal("head -2");  // it quits early
  EXPECT_EQ(paged.exit_code, 0) << paged;
  EXPECT_EQ(std::count(paged.out.begin(), paged.out.end(), '\n'), 2) << paged;
  for (const char* none : {"", "cat", "/no/such/pager"}) {
    const ProcessResult whole = on_terminal(none);
    EXPECT_EQ(whole.exit_code, 0) << whole;
    EXPECT_NE(whole.out.find("parallel.timeout"), std::string::npos) << whole;
  }
}

TEST(Commands, ALeftoverWorldOfOneIsOneProcess) {
  const Workspace workspace;
  const ProcessResult result =
      lmtrain({"train", workspace.config(), "--dry-run"}, {.env = {{"WORLD_SIZE", "1"}}});
  EXPECT_EQ(result.exit_code, 0) << result;
}

TEST(Commands, VersionAndHelp) {
  const ProcessResult version = lmtrain({"--version"});
  EXPECT_EQ(version.exit_code, 0) << version;
  for (const char* word : {"lmtrain", "libtorch", "CUDA"}) {
    EXPECT_NE(version.out.find(word), std::string::npos) << version;
  }
  const ProcessResult help = lmtrain({"--help"});
  EXPECT_EQ(help.exit_code, 0) << help;
  for (const char* command :
       {"train", "resume", "eval", "generate", "prepare", "report", "config"}) {
    EXPECT_NE(help.out.find(command), std::string::npos) << help;
    const ProcessResult of_command = lmtrain({command, "--help"});
    EXPECT_EQ(of_command.exit_code, 0) << of_command;
    EXPECT_EQ(of_command.err, "") << of_command;
  }
}

}  // namespace
}  // namespace lmtrain::testing
