// What the program advises a person to do: the nearest right word for one that is wrong, and
// commands that work when they are typed as advised.
#include <gtest/gtest.h>

#include <csignal>

#include "e2e/references.h"

namespace lmtrain::testing {
namespace {

using Arguments = std::vector<std::string>;

constexpr const char* kHfFolder = LMTRAIN_SOURCE_DIR "/tests/reference/eval/hf";

TEST(Advice, NearestRightWord) {
  struct Case {
    Arguments arguments;
    std::string part;
  };
  const std::string config = "configs/tiny.json";
  for (const Case& c :
       {Case{{"train", "--hlep"},
             "no option \"--hlep\" of lmtrain train; did you mean \"--help\"?"},
        Case{{"train", config, "--dryrun"}, "did you mean \"--dry-run\"?"},
        Case{{"train", config, "--lr", "1e-3"}, "--set optimizer.lr=1e-3;"},
        Case{{"train", config, "--learning-rate=2e-4"}, "--set optimizer.lr=2e-4;"},
        Case{{"plan", config, "--seed", "5"}, "--set seed=5;"},
        Case{{"resume", "runs/a", "--max-time", "2h"}, "--set train.max_time=2h;"},
        Case{{"train", config, "--run-dir", "--lr", "--frob"}, "\"--frob\""},
        Case{{"eval", kHfFolder, "--jsn"}, "of lmtrain eval; did you mean \"--json\"?"},
        Case{{"generate", kHfFolder, "--lr", "1"}, "its options are --"},
        Case{{"config", "shwo", config}, "did you mean \"show\"?"},
        Case{{"config", "show", config, "--jsno"},
             "of lmtrain config show; did you mean \"--json\"?"},
        Case{{"helpp"}, "lmtrain --help"}, Case{{"help", "trian"}, "did you mean \"train\"?"},
        Case{{"eval", kHfFolder, "--precision", "float16"}, "did you mean \"fp16\"?"},
        Case{{"train", config, "--set", "precision=bfloat16"}, "did you mean \"bf16\"?"},
        Case{{"train", config, "--set", "train.max_time=10m"}, "did you mean \"10min\"?"},
        Case{{"train", config, "--set", "lr=1"}, "did you mean \"optimizer.lr\"?"}}) {
    const ProcessResult result = lmtrain(c.arguments);
    EXPECT_EQ(result.exit_code, 2) << result;
    EXPECT_EQ(result.out, "") << result;
    EXPECT_NE(result.err.find(c.part), std::string::npos) << c.part << "\n" << result;
  }
}

TEST(Advice, HelpAndVersionAreWordsToo) {
  const ProcessResult help = lmtrain({"--help"});
  const ProcessResult train_help = lmtrain({"train", "--help"});
  EXPECT_EQ(help.exit_code, 0) << help;
  EXPECT_EQ(lmtrain({"help"}).out, help.out);
  EXPECT_EQ(lmtrain({"-h"}).out, help.out);
  EXPECT_EQ(lmtrain({"help", "train"}).out, train_help.out);
  EXPECT_NE(train_help.out.find("--dry-run"), std::string::npos) << train_help;
  const ProcessResult version = lmtrain({"version"});
  EXPECT_EQ(version.exit_code, 0) << version;
  EXPECT_EQ(version.out, lmtrain({"--version"}).out);
}

// The reader of the pipe has gone before the program begins to write.
TEST(Advice, AClosedPipeIsQuiet) {
  const Workspace workspace;
  const std::string config = workspace.config();
  for (const std::string& arguments :
       {std::string("config explain"), std::string("config schema"), "config show " + config,
        std::string("--help"), "generate " + std::string(kHfFolder) + " --prompt a"}) {
    const std::string script = "exec 3> >(true); wait $!; \"$0\" " + arguments + " >&3";
    const ProcessResult closed =
        Process({"bash", "-c", script, lmtrain_binary()}, on_one_core({})).wait();
    EXPECT_EQ(closed.shell_code(), 128 + SIGPIPE) << arguments << closed;
    EXPECT_EQ(closed.err, "") << arguments;
    // A disk that is full is an error.
    const ProcessResult full =
        Process({"bash", "-c", "\"$0\" " + arguments + " >/dev/full", lmtrain_binary()},
                on_one_core({}))
            .wait();
    EXPECT_EQ(full.shell_code(), 5) << arguments << full;
    EXPECT_NE(full.err.find("standard output"), std::string::npos) << arguments << full;
  }
}

TEST(Advice, ConfigShowAsOneJsonDocument) {
  const Workspace workspace;
  const ProcessResult shown =
      lmtrain({"config", "show", workspace.config(), "--set", "optimizer.lr=0.5", "--json"});
  EXPECT_EQ(shown.exit_code, 0) << shown;
  const Json config = Json::parse(shown.out);  // without comments
  EXPECT_EQ(config.at("optimizer").at("lr"), 0.5);
  EXPECT_EQ(config.at("optimizer").at("momentum"), 0.95) << "an unused key is there too";
}

// A model folder without its tokenizer: the option that the message names is there.
TEST(Advice, GenerateTakesATokenizer) {
  const Workspace workspace;
  const std::filesystem::path folder = workspace / "hf";
  std::filesystem::copy(kHfFolder, folder);
  const std::string tokenizer = workspace / "tokenizer.model";
  std::filesystem::rename(folder / "tokenizer.model", tokenizer);
  const Arguments command = {"generate", folder.string(), "--prompt", "a", "--max-tokens", "5"};
  const ProcessResult without = lmtrain(command);
  EXPECT_EQ(without.exit_code, 2) << without;
  EXPECT_NE(without.err.find("--tokenizer"), std::string::npos) << without;
  Arguments with = command;
  with.insert(with.end(), {"--tokenizer", tokenizer});
  const ProcessResult result = lmtrain(with);
  EXPECT_EQ(result.exit_code, 0) << result;
  EXPECT_EQ(result.out, lmtrain({"generate", kHfFolder, "--prompt", "a", "--max-tokens", "5"}).out);
}

}  // namespace
}  // namespace lmtrain::testing
