// What the program advises a person to do: the nearest right word for one that is wrong, and
// commands that work when they are typed as advised.
#include <gtest/gtest.h>

#include <csignal>
#include <sstream>

#include "e2e/references.h"
#include "e2e/small_disk.h"

namespace lmtrain::testing {
namespace {

namespace fs = std::filesystem;
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
        Case{{"train", config, "train.steps=10"}, "with --set: --set train.steps=10"},
        Case{{"train", config, "--set", "train.steps", "10"}, "with --set: --set train.steps=10"},
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
        Process({"/bin/bash", "-c", script, lmtrain_binary()}, on_one_core({})).wait();
    EXPECT_EQ(closed.shell_code(), 128 + SIGPIPE) << arguments << closed;
    EXPECT_EQ(closed.err, "") << arguments;
    // A disk that is full is an error.
    const ProcessResult full =
        Process({"/bin/bash", "-c", "\"$0\" " + arguments + " >/dev/full", lmtrain_binary()},
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

// The commands that a message advises: what stands behind "lmtrain " up to the end or a semicolon.
Arguments advised(const std::string& message, const std::string& command) {
  const size_t begin = message.find("lmtrain " + command);
  if (begin == std::string::npos) return {};
  std::istringstream words(message.substr(begin, message.find_first_of(";\n", begin) - begin));
  Arguments arguments;
  for (std::string word; words >> word;) arguments.push_back(word);
  arguments.erase(arguments.begin());
  return arguments;
}

TEST(Advice, ResumeOfAPartOfARunNamesTheRun) {
  const RunDir& run = reference().run;
  const fs::path checkpoint = run.newest_checkpoint();
  struct Case {
    fs::path path;
    std::string part;
  };
  for (const Case& c : {Case{checkpoint, "is a checkpoint; it belongs to a run"},
                        Case{checkpoint / "", "is a checkpoint; it belongs to a run"},
                        Case{run.folder() / "checkpoints", "is not a run folder"},
                        Case{run.folder() / "config.json", "is not a folder"},
                        Case{run.folder() / "metrics.jsonl", "is not a folder"},
                        Case{run.folder() / "trials/seed_1", "does not exist"}}) {
    const ProcessResult result = lmtrain({"resume", c.path.string()});
    EXPECT_EQ(result.exit_code, 2) << result;
    EXPECT_NE(result.err.find(c.part), std::string::npos) << result;
    const Arguments again = advised(result.err, "resume");
    EXPECT_EQ(again, (Arguments{"resume", run.path()})) << result;
    EXPECT_EQ(lmtrain(again).exit_code, 0);
  }
}

// "runs" in place of "runs/a".
TEST(Advice, ResumeOfAFolderOfRunsNamesThem) {
  const Workspace workspace;
  fs::create_directories(workspace / "runs/b");  // no run
  const RunDir run = reference().run.copy(workspace / "runs/a");
  const ProcessResult one = lmtrain({"resume", (workspace / "runs").string()});
  EXPECT_EQ(one.exit_code, 2) << one;
  EXPECT_NE(one.err.find("is not a run folder (no config.json); 1 run in it: "), std::string::npos)
      << one;
  const Arguments again = advised(one.err, "resume");
  EXPECT_EQ(again, (Arguments{"resume", run.path()})) << one;
  EXPECT_EQ(lmtrain(again).exit_code, 0);
}

// The folder that the plan speaks of may be another, as for train.
TEST(Advice, PlanTakesTheFolderOfTheRun) {
  const Workspace workspace;
  const RunDir run = reference().run.copy(workspace / "taken");
  const std::string config = workspace.config();
  const ProcessResult taken = lmtrain({"plan", config, "--run-dir", run.path()});
  EXPECT_EQ(taken.exit_code, 0) << taken;
  EXPECT_NE(taken.out.find("already holds a run"), std::string::npos) << taken;
  EXPECT_NE(taken.out.find("with --run-dir"), std::string::npos) << taken;
  const ProcessResult free = lmtrain({"plan", config, "--run-dir", (workspace / "free").string()});
  EXPECT_EQ(free.out.find("already holds a run"), std::string::npos) << free;
}

TEST(Advice, ResumeOfAModelNamesInitFrom) {
  const ProcessResult result = lmtrain({"resume", kHfFolder});
  EXPECT_EQ(result.exit_code, 2) << result;
  EXPECT_NE(result.err.find("is a model, not a run"), std::string::npos) << result;
  EXPECT_NE(result.err.find("init_from=" + std::string(kHfFolder)), std::string::npos) << result;
  const Workspace workspace;
  const fs::path moved = workspace / "elsewhere";
  fs::copy(reference().run.newest_checkpoint(), moved);
  const ProcessResult checkpoint = lmtrain({"resume", moved.string()});
  EXPECT_EQ(checkpoint.exit_code, 2) << checkpoint;
  EXPECT_NE(checkpoint.err.find("is a checkpoint; a new run takes its weights"), std::string::npos)
      << checkpoint;
}

// A disk that becomes full ends the run; the command that the message names goes on with it.
TEST(Advice, AfterAFullDiskTheAdvisedCommandWorks) {
  const SmallDisk disk("64m");
  if (!disk.mounted()) GTEST_SKIP() << "no file system can be mounted here";
  const Workspace workspace;
  const std::string config = workspace.config({{"train", {{"steps", 200}}}});
  const RunDir run(disk / "run");
  const Arguments command = {"train", config, "--run-dir", run.path()};
  LmtrainProcess process(command);
  ASSERT_TRUE(process.wait_until([&] { return !run.checkpoint_steps().empty(); }));
  process.send(SIGSTOP);
  disk.fill("filler");
  process.send(SIGCONT);
  const ProcessResult failed = process.wait();
  EXPECT_EQ(failed.exit_code, 5) << failed;
  EXPECT_NE(failed.err.find("free some space"), std::string::npos) << failed;
  EXPECT_EQ(failed.err.find("run the command again"), std::string::npos) << failed;
  fs::remove(disk / "filler");
  // The command itself would be refused, and names the same one.
  const Arguments advice = advised(failed.err, "resume");
  EXPECT_EQ(advice, advised(lmtrain(command).err, "resume")) << failed;
  const ProcessResult resumed = lmtrain(advice);
  EXPECT_EQ(resumed.exit_code, 0) << resumed;
  EXPECT_EQ(run.status().at("step"), 200);
  EXPECT_EQ(run.status().at("state"), "done");
}

// Where older checkpoints are in the way, fewer of them are kept at once, not after the next save.
TEST(Advice, AfterAFullDiskFewerCheckpointsMakeRoom) {
  const SmallDisk disk("64m");
  if (!disk.mounted()) GTEST_SKIP() << "no file system can be mounted here";
  const RunDir run = reference().run.copy(disk / "run");
  const std::vector<int64_t> before = run.checkpoint_steps();
  ASSERT_GT(before.size(), 1U);
  disk.fill("filler", 200 << 10);
  const ProcessResult refused = lmtrain({"resume", run.path(), "--set", "train.steps=60"});
  EXPECT_EQ(refused.exit_code, 5) << refused;
  EXPECT_NE(refused.err.find("lower checkpoint.keep ("), std::string::npos) << refused;
  EXPECT_EQ(run.checkpoint_steps(), before);
  const ProcessResult resumed = lmtrain({"resume", run.path(), "--set", "train.steps=60", "--set",
                                         "checkpoint.keep=1", "--set", "log.tensorboard=false"});
  EXPECT_EQ(resumed.exit_code, 0) << resumed;
  EXPECT_EQ(run.status().at("step"), 60);
}

}  // namespace
}  // namespace lmtrain::testing
