// Several processes train one model: the same bits for any number of them, whether each updates all
// tensors or a part of them, also across resumes; and none is left behind when one is lost.
#include <gtest/gtest.h>

#include <csignal>

#include "e2e/ranks.h"
#include "e2e/references.h"

namespace lmtrain::testing {
namespace {

Json exact(Json changes = Json::object()) {
  changes["parallel"] = {{"sum", "exact"}, {"parts", 4}, {"shard", "optimizer"}};
  return changes;
}

struct Case {
  std::string name;
  Json changes;
  std::string event;  // happens in the run
};
std::ostream& operator<<(std::ostream& out, const Case& test) { return out << test.name; }

std::vector<Case> cases() {
  const Json pack = {{"sequence", {{"batching", "pack"}, {"schedule", {{"type", "linear"}}}}},
                     {"optimizer", {{"type", "muon"}}},
                     {"clip", {{"max", 0.2}}}};
  const Json sets = {{"lines", "data/sample.jsonl"}, {"files", "data/sample"}};
  const Json concat = {{"sequence", {{"batching", "concat"}, {"schedule", {{"type", "constant"}}}}},
                       {"precision", "auto"},
                       {"optimizer", {{"type", "soap"}}},
                       {"data", {{"eval", sets}}},
                       {"train", {{"steps", nullptr}, {"epochs", 0.3}}}};
  // Spikes are found, and the run goes back.
  const Json guard = {{"sequence", {{"batching", "pad"}, {"schedule", {{"type", "natural"}}}}},
                      {"guard", {{"on_spike", "rollback"}, {"spike_sigma", 2.5}, {"window", 8}}}};
  // Not bf16, which not every processor has.
  const Json fp16 = {{"precision", "fp16"}, {"clip", {{"max", 0.2}}}};
  const Json early = {{"eval", {{"every", "5 steps"}, {"early_stop", {{"min_delta", 100}}}}},
                      {"checkpoint", {{"keep", 1}, {"keep_best", 2}}}};
  const Json trials = {{"restart", {{"seeds", 2}, {"tokens", "20%"}}}};
  return {{"Bucket", Json::object(), "save"},
          {"PackMuonClipped", pack, "save"},
          {"ConcatSoapEpochs", concat, "save"},
          {"PadWithRollbacks", guard, "rollback"},
          {"Mars", {{"optimizer", {{"type", "mars"}}}}, "save"},
          {"Fp16", fp16, "save"},
          {"EarlyStop", early, "save"},
          {"Trials", trials, "restart_trial"}};
}

class DistributedExact : public ::testing::TestWithParam<Case> {};

TEST_P(DistributedExact, HasTheSameBitsWithOneTwoAndFourProcesses) {
  const Reference& one = reference(exact(GetParam().changes));
  EXPECT_FALSE(one.run.events(GetParam().event).empty());
  struct Setting {
    int count;
    std::string shard;
  };
  // The tree of four contains that of two processes.
  std::vector<Setting> settings = {{4, "optimizer"}};
  if (GetParam().name == "Bucket") settings = {{2, "optimizer"}, {4, "optimizer"}, {2, "none"}};
  if (GetParam().name == "PadWithRollbacks") settings.push_back({4, "none"});
  for (const auto& [count, shard] : settings) {
    const RunDir run(one.fresh("exact"));
    const std::vector<ProcessResult> results = lmtrain_as(
        count, {"train", one.config, "--run-dir", run.path(), "--set", "parallel.shard=" + shard});
    expect_all(results, 0);
    EXPECT_EQ(difference(run, one.run), "") << count << " processes, " << shard << "\n"
                                            << results[0];
    EXPECT_EQ(Json::parse(results[0].out), run.status());
    if (GetParam().name == "Fp16") continue;              // every rank warns that it is slow
    for (size_t rank = 1; rank < results.size(); ++rank)  // rank 0 alone speaks
      EXPECT_EQ(results[rank].out + results[rank].err, "");
  }
}

INSTANTIATE_TEST_SUITE_P(Of, DistributedExact, ::testing::ValuesIn(cases()),
                         [](const auto& test) { return test.param.name; });

// The comparison would show it: other parts are other bits, and so is the order of `fast`.
TEST(Distributed, OtherPartsAreOtherBits) {
  Json eight = exact();
  eight["parallel"]["parts"] = 8;
  EXPECT_NE(difference(reference(eight).run, reference(exact()).run), "");
  EXPECT_NE(difference(reference().run, reference(exact()).run), "");
}

TEST(Distributed, FastIsTheSameRunToRounding) {
  const std::vector<Json> expected = reference().run.metrics();
  const RunDir run(reference().fresh("fast"));
  expect_all(lmtrain_as(3, {"train", reference().config, "--run-dir", run.path(), "--set",
                            "parallel.shard=optimizer"}),
             0);
  const std::vector<Json> lines = run.metrics();
  ASSERT_EQ(lines.size(), expected.size());
  for (size_t i = 0; i < lines.size(); ++i) {
    for (const char* field : {"step", "tokens", "seq_len", "lr"})
      EXPECT_EQ(lines[i].value(field, Json()), expected[i].value(field, Json()));
    if (lines[i].contains("grad_norm")) {
      EXPECT_LT(lines[i].at("slowest_rank").get<int>(), 3);
      EXPECT_GT(lines[i].at("slowest_seconds").get<double>(), 0);
      EXPECT_LE(lines[i].at("communication_share").get<double>(), 1);
      EXPECT_FALSE(expected[i].contains("communication_share"));
    }
    for (const char* field : {"loss", "eval_loss"}) {
      if (lines[i].contains(field)) {
        EXPECT_NEAR(lines[i][field].get<double>(), expected[i][field].get<double>(), 1e-4);
      }
    }
  }
}

TEST(Distributed, StopsWithFourAndGoesOnWithOneThenTwo) {
  const Reference& one = reference(exact());
  const RunDir run(one.fresh("stopped"));
  const auto stop_at = [&](int count, size_t rank, const std::string& step,
                           const std::vector<std::string>& command) {
    Ranks ranks(count, command);
    EXPECT_TRUE(ranks[0].wait_until([&] { return run.has_metrics_line("{\"step\":" + step); }));
    ranks[rank].send(SIGTERM);  // one of them alone
    const std::vector<ProcessResult> results = ranks.wait();
    expect_all(results, 128 + SIGTERM);
    return results;
  };
  stop_at(4, 1, "8,", {"train", one.config, "--run-dir", run.path()});
  EXPECT_EQ(run.events("signal").size(), 1U);
  const int64_t stopped = run.checkpoint_steps().back();
  EXPECT_EQ(run.metrics().back().at("step"), stopped);  // saved after the same step
  {
    LmtrainProcess alone({"resume", run.path()});
    const std::string later = "{\"step\":" + std::to_string(stopped + 6) + ",";
    EXPECT_TRUE(alone.wait_until([&] { return run.has_metrics_line(later); }));
    alone.send(SIGTERM);
    EXPECT_EQ(alone.wait().exit_code, 128 + SIGTERM);
  }
  const std::vector<ProcessResult> results = lmtrain_as(2, {"resume", run.path()});
  expect_all(results, 0);
  EXPECT_EQ(difference(run, one.run), "") << results[0];
}

// Whichever is killed, the first one too, the others end and name it; then the run goes on.
TEST(Distributed, AKilledRankEndsTheOthers) {
  const Reference& one = reference(exact());
  for (const size_t victim : {0, 1}) {
    const RunDir run(one.fresh("killed"));
    const std::vector<std::string> command = {"train", one.config, "--run-dir", run.path(),
                                              "--continue"};
    {
      Ranks ranks(4, command);
      EXPECT_TRUE(ranks[0].wait_until([&] { return run.has_metrics_line("{\"step\":5,"); }));
      ranks[victim].send(SIGKILL);
      const std::vector<ProcessResult> results = ranks.wait();
      for (size_t rank = 0; rank < results.size(); ++rank) {
        if (rank == victim) continue;
        EXPECT_EQ(results[rank].exit_code, 5) << results[rank];
        EXPECT_NE(results[rank].err.find("rank " + std::to_string(victim) + " ("),
                  std::string::npos)
            << results[rank];
      }
    }
    expect_all(lmtrain_as(2, command), 0);
    EXPECT_EQ(difference(run, one.run), "");
  }
}

// It hangs, and is named after parallel.timeout.
TEST(Distributed, AStoppedRankEndsTheOthers) {
  const Reference& one = reference(exact());
  const RunDir run(one.fresh("hangs"));
  Ranks ranks(2, {"train", one.config, "--run-dir", run.path(), "--set", "parallel.timeout=12s",
                  "--set", "train.steps=100000"});
  EXPECT_TRUE(ranks[0].wait_until([&] { return run.has_metrics_line("{\"step\":5,"); }));
  ranks[1].send(SIGSTOP);
  const ProcessResult first = ranks[0].wait();
  EXPECT_EQ(first.exit_code, 5) << first;
  EXPECT_NE(first.err.find("rank 1 ("), std::string::npos) << first;
  EXPECT_NE(first.err.find("no sign of life"), std::string::npos) << first;
  EXPECT_EQ(run.status().at("state"), "failed");
  ranks[1].send(SIGCONT);
  EXPECT_EQ(ranks[1].wait().exit_code, 5);
}

// What one process finds wrong is said by all, with its exit code.
TEST(Distributed, OneCauseEndsAllWithItsCode) {
  const Reference& one = reference();
  const auto expect_refused = [&](int count, const std::vector<std::string>& settings, int code,
                                  const std::string& cause) {
    std::vector<std::string> command = {"train", one.config, "--run-dir",
                                        one.fresh("refused").string()};
    for (const std::string& setting : settings) command.insert(command.end(), {"--set", setting});
    const std::vector<ProcessResult> results = lmtrain_as(count, command);
    expect_all(results, code);
    for (size_t rank = 0; rank < results.size(); ++rank) {
      const std::string& text = results[rank].err;
      EXPECT_NE(text.find(cause), std::string::npos) << text;
      EXPECT_EQ(text.find("frame #"), std::string::npos) << "a stack trace of libtorch: " << text;
      if (rank > 0) {
        EXPECT_NE(text.find("lmtrain: rank " + std::to_string(rank) + ": "), std::string::npos)
            << text;
      }
    }
  };
  expect_refused(3, {"parallel.sum=exact"}, 2, "a power of two, up to parallel.parts (8)");
  expect_refused(4, {"parallel.sum=exact", "parallel.parts=2"}, 2,
                 "a power of two, up to parallel.parts (2)");
  expect_refused(2, {"parallel.shard=parameters"}, 2, "parallel.shard is \"parameters\"");
  expect_refused(2, {"optimizer.lr=1e30", "guard.max_skips=3"}, 4, "diverged");
}

// A process waits for the others by a call of libtorch that no signal ends.
TEST(Distributed, ASignalEndsAProcessThatWaitsForTheOthers) {
  const Workspace workspace;
  const ReservedPort port;
  for (const char* rank : {"0", "1"}) {
    ProcessOptions options;
    options.env = {{"RANK", rank},
                   {"LOCAL_RANK", rank},
                   {"WORLD_SIZE", "2"},
                   {"MASTER_ADDR", "127.0.0.1"},
                   {"MASTER_PORT", std::to_string(port.number())}};
    LmtrainProcess process({"train", workspace.config()}, options);
    EXPECT_TRUE(process.wait_until([&] { return process.catches(SIGTERM); }));
    std::this_thread::sleep_for(std::chrono::seconds(2));
    process.send(SIGTERM);
    EXPECT_EQ(process.wait(10).exit_code, 128 + SIGTERM) << rank;
  }
}

TEST(Distributed, APartialSetOfVariablesIsRefused) {
  ProcessOptions options;
  options.env = {{"RANK", "1"}, {"WORLD_SIZE", "2"}, {"LOCAL_RANK", "1"}, {"MASTER_PORT", "1234"}};
  const ProcessResult result =
      lmtrain({"train", reference().config, "--run-dir", reference().fresh("partial")}, options);
  EXPECT_EQ(result.exit_code, 2) << result;
  EXPECT_NE(result.err.find("MASTER_ADDR is not set"), std::string::npos) << result;
}

}  // namespace
}  // namespace lmtrain::testing
