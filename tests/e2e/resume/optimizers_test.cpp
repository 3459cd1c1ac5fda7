// Runs with every optimizer: they learn, and a resume goes on with the same bits.
#include <gtest/gtest.h>

#include <csignal>

#include "e2e/references.h"
#include "e2e/tamper.h"

namespace lmtrain::testing {
namespace {

struct OptimizerCase {
  std::string name;
  Json settings;
  std::string state;  // a buffer whose loss must show
  Json model = Json::object();
};

std::ostream& operator<<(std::ostream& out, const OptimizerCase& test) { return out << test.name; }

Json groups() {
  return {{{"pattern", "*norm.weight"}, {"lr", 1e-3}},
          {{"pattern", "*embed*"}, {"weight_decay", 0}}};
}

std::vector<OptimizerCase> optimizer_cases() {
  return {
      {"AdamW", {{"type", "adamw"}, {"lr", 3e-3}, {"groups", groups()}}, "exp_avg_sq."},
      {"Lion", {{"type", "lion"}, {"lr", 1e-3}}, "exp_avg."},
      {"AdEMAMix", {{"type", "ademamix"}, {"lr", 3e-3}}, "exp_avg_slow."},
      {"Muon", {{"type", "muon"}, {"lr", 3e-3}, {"groups", groups()}}, "momentum_buffer."},
      {"NorMuon",
       {{"type", "muon"},
        {"lr", 3e-3},
        {"normuon", true},
        {"cautious_decay", true},
        {"ns_coefficients", "polar_express"},
        {"ns_steps", 4}},
       "second_momentum.",
       {{"initializer", "zero_outputs"}}},
      {"Qwen3",
       {{"type", "muon"}, {"lr", 3e-3}, {"groups", groups()}},
       "exp_avg.",
       {{"model_type", "qwen3"}, {"head_dim", 12}}},
      {"Qwen2",
       {{"type", "muon"}, {"lr", 3e-3}},
       "exp_avg.model.layers.0.self_attn.q_proj.bias",
       {{"model_type", "qwen2"}}},
      {"Soap", {{"type", "soap"}, {"lr", 3e-3}, {"precondition_frequency", 5}}, "L."},
      {"Sgd", {{"type", "sgd"}, {"lr", 0.3}, {"groups", groups()}}, "momentum_buffer."},
      {"RmsProp", {{"type", "rmsprop"}, {"lr", 1e-3}}, "exp_avg_sq."},
      {"Adam", {{"type", "adam"}, {"lr", 3e-3}, {"weight_decay", 1e-4}}, "exp_avg."},
      {"Adopt", {{"type", "adopt"}, {"lr", 3e-3}}, "exp_avg_sq."},
      {"Mars", {{"type", "mars"}, {"lr", 3e-3}}, "last_grad."},
  };
}

class Optimizers : public ::testing::TestWithParam<OptimizerCase> {
 protected:
  const Reference& whole() const {
    return reference({{"optimizer", GetParam().settings}, {"model", GetParam().model}});
  }

  // Killed after step 22 of 40, in the middle of a period of SOAP's bases.
  RunDir killed(const std::string& name) const {
    return interrupted_run(whole(), name, SIGKILL, 22, 1);
  }
};

TEST_P(Optimizers, Learns) {
  const std::vector<Json> lines = whole().run.metrics();
  double first = 0, last = 0;
  for (const Json& line : lines) {
    if (!line.contains("eval_loss")) continue;
    last = line.at("eval_loss");
    if (first == 0) first = last;
  }
  EXPECT_LT(last, first - 0.3);
}

TEST_P(Optimizers, AResumeAfterAKillIsBitExact) {
  const RunDir run = killed("killed");
  const ProcessResult resumed = lmtrain({"resume", run.path()});
  EXPECT_EQ(resumed.exit_code, 0) << resumed;
  EXPECT_EQ(difference(run, whole().run), "");
}

TEST_P(Optimizers, AResumeThatForgetsShows) {
  const RunDir run = killed("forgets");
  const int64_t step = run.checkpoint_steps().back();
  rewrite_unchanged(run.checkpoint(step));
  zero_moments(run.checkpoint(step), GetParam().state);
  const ProcessResult resumed = lmtrain({"resume", run.path()});
  EXPECT_EQ(resumed.exit_code, 0) << resumed;
  EXPECT_NE(difference(run, whole().run), "");
}

INSTANTIATE_TEST_SUITE_P(Rules, Optimizers, ::testing::ValuesIn(optimizer_cases()),
                         [](const auto& one) { return one.param.name; });

const Reference& soap() { return reference({{"optimizer", {{"type", "soap"}}}}); }

TEST(Optimizers, ItsTypeCannotChangeOnResume) {
  const RunDir run = soap().run.copy(soap().fresh("type"));
  for (const std::string change : {"optimizer.type=muon", "optimizer.max_precond_dim=20"}) {
    const ProcessResult refused =
        lmtrain({"resume", run.path(), "--set", "train.steps=45", "--set", change});
    EXPECT_EQ(refused.exit_code, 2) << refused;
    EXPECT_NE(refused.err.find(change.substr(0, change.find('='))), std::string::npos) << refused;
  }
}

TEST(Optimizers, ChangedSettingsAreExplainedOnResume) {
  const RunDir run = soap().run.copy(soap().fresh("settings"));
  const ProcessResult resumed =
      lmtrain({"resume", run.path(), "--set", "train.steps=45", "--set",
               "optimizer.betas=[0.9,0.98]", "--set", "optimizer.momentum=0.5"});
  EXPECT_EQ(resumed.exit_code, 0) << resumed;
  EXPECT_NE(resumed.err.find("optimizer.betas is [0.9,0.98] from the next update on (was "
                             "[0.95,0.95])"),
            std::string::npos)
      << resumed;
  EXPECT_NE(resumed.err.find("optimizer.momentum is 0.5 (was 0.95), without effect: "
                             "optimizer.type is soap"),
            std::string::npos)
      << resumed;
}

TEST(Optimizers, AGroupThatMatchesNothingIsRefused) {
  const ProcessResult refused =
      lmtrain({"train", reference().config, "--run-dir", reference().fresh("no match").string(),
               "--set", "optimizer.groups=[{\"pattern\":\"*.bias\",\"weight_decay\":0}]"});
  EXPECT_EQ(refused.exit_code, 2) << refused;
  EXPECT_NE(refused.err.find("\"*.bias\" matches no tensor"), std::string::npos) << refused;
}

}  // namespace
}  // namespace lmtrain::testing
