// Processes that divide the weights (parallel.shard "parameters") make the run of one process.
#include <gtest/gtest.h>

#include <csignal>

#include "e2e/ranks.h"
#include "e2e/references.h"

namespace lmtrain::testing {
namespace {

Json divided(Json changes = Json::object()) {
  changes["parallel"] = {{"sum", "exact"}, {"parts", 4}, {"shard", "parameters"}};
  changes["model"]["activation_checkpointing"] = true;
  return changes;
}

struct DividedCase {
  std::string name;
  Json changes;
  std::string event;  // happens in the run
};
std::ostream& operator<<(std::ostream& out, const DividedCase& test) { return out << test.name; }

std::vector<DividedCase> divided_cases() {
  // Several micro-batches a part, whose rows are segments.
  const Json pack = {{"sequence", {{"batching", "pack"}, {"schedule", {{"type", "linear"}}}}},
                     {"model", {{"tie_word_embeddings", false}}},
                     {"optimizer", {{"type", "muon"}}},
                     {"batch", {{"tokens", 512}, {"micro_tokens", 64}}},
                     {"clip", {{"max", 0.2}}}};
  const Json guard = {{"sequence", {{"batching", "pad"}, {"schedule", {{"type", "natural"}}}}},
                      {"model", {{"tie_word_embeddings", true}}},
                      {"guard", {{"on_spike", "rollback"}, {"spike_sigma", 2.5}, {"window", 8}}}};
  // Not bf16, which not every processor has.
  const Json fp16 = {{"precision", "fp16"},
                     {"model", {{"tie_word_embeddings", true}}},
                     {"batch", {{"micro_tokens", 64}}},
                     {"clip", {{"type", "value"}, {"max", 0.001}}}};
  const Json trials = {{"restart", {{"seeds", 2}, {"tokens", "20%"}}},
                       {"optimizer", {{"type", "soap"}}}};
  return {{"PackMuonUntied", pack, "save"},
          {"PadWithRollbacks", guard, "rollback"},
          {"Fp16ClippedByValue", fp16, "save"},
          {"TrialsWithSoap", trials, "restart_trial"}};
}

class DividedWeights : public ::testing::TestWithParam<DividedCase> {};

TEST_P(DividedWeights, HaveTheBitsOfOneProcess) {
  const Reference& one = reference(divided(GetParam().changes));
  EXPECT_FALSE(one.run.events(GetParam().event).empty());
  for (const int count : {2, 4}) {
    const RunDir run(one.fresh("divided"));
    const auto results = lmtrain_as(count, {"train", one.config, "--run-dir", run.path()});
    expect_all(results, 0);
    EXPECT_EQ(difference(run, one.run), "") << count << " processes\n" << results[0];
  }
}

INSTANTIATE_TEST_SUITE_P(Of, DividedWeights, ::testing::ValuesIn(divided_cases()),
                         [](const auto& test) { return test.param.name; });

// Nothing but rounding, in an order that three processes have alone.
TEST(DividedWeightsFast, AreTheSameRunToRounding) {
  const Json changes = {{"model", {{"activation_checkpointing", true}}},
                        {"train", {{"steps", 50}}}};
  const Reference& one = reference(changes);
  const std::vector<Json> expected = one.run.metrics();
  const RunDir run(one.fresh("fast"));
  expect_all(lmtrain_as(3, {"train", one.config, "--run-dir", run.path(), "--set",
                            "parallel.shard=parameters"}),
             0);
  const std::vector<Json> lines = run.metrics();
  ASSERT_EQ(lines.size(), expected.size());
  for (size_t i = 0; i < lines.size(); ++i) {
    for (const char* field : {"loss", "eval_loss"}) {
      if (!lines[i].contains(field)) continue;
      EXPECT_NEAR(lines[i][field].get<double>(), expected[i][field].get<double>(), 1e-6);
    }
  }
}

TEST(DividedWeightsResume, OtherNumbersAndOtherDivisionsGoOn) {
  const Reference& one = reference(divided());
  const RunDir run(one.fresh("stopped"));
  // Stops it some steps after the newest checkpoint.
  const auto stop = [&](int count, const std::vector<std::string>& command) {
    const std::vector<int64_t> saved = run.checkpoint_steps();
    const int64_t step = (saved.empty() ? 0 : saved.back()) + 6;
    Ranks ranks(count, command);
    EXPECT_TRUE(ranks[0].wait_until(
        [&] { return run.has_metrics_line("{\"step\":" + std::to_string(step) + ","); }));
    ranks[1].send(SIGTERM);
    expect_all(ranks.wait(), 128 + SIGTERM);
  };
  stop(4, {"train", one.config, "--run-dir", run.path()});
  stop(2, {"resume", run.path(), "--set", "parallel.shard=optimizer"});
  stop(2, {"resume", run.path(), "--set", "parallel.shard=parameters"});
  expect_all(lmtrain_as(1, {"resume", run.path()}), 0);
  EXPECT_EQ(difference(run, one.run), "");
}

TEST(DividedWeightsErrors, NameTheKey) {
  const Workspace workspace;
  const std::string config = workspace.config(divided());
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"model.activation_checkpointing=false", "model.activation_checkpointing"},
      {"log.samples.prompts=[\"a\"]", "log.samples"}};
  for (const auto& [setting, key] : cases) {
    const auto results =
        lmtrain_as(2, {"train", config, "--run-dir", workspace / "refused", "--set", setting});
    expect_all(results, 2);
    EXPECT_NE(results[0].err.find("parallel.shard is \"parameters\""), std::string::npos)
        << results[0];
    EXPECT_NE(results[0].err.find(key), std::string::npos) << results[0];
  }
}

}  // namespace
}  // namespace lmtrain::testing
