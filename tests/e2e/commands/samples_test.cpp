// log.samples: what the model writes behind given prompts at each evaluation.
#include <gtest/gtest.h>

#include <csignal>

#include "e2e/ranks.h"
#include "e2e/references.h"

namespace lmtrain::testing {
namespace {

const std::vector<std::string> kPrompts = {"def f(x):\n", "<b>Once & again</b>"};

Json with_samples() {
  return {{"log", {{"samples", {{"prompts", kPrompts}, {"max_tokens", 12}}}}},
          {"eval", {{"every", "20 steps"}}},
          {"checkpoint", {{"every", "20 steps"}, {"keep", 10}}}};
}

TEST(Samples, EachEvaluationHasOneOfEachPrompt) {
  const RunDir& run = reference(with_samples()).run;
  const std::vector<Json> samples = run.events("sample");
  ASSERT_EQ(samples.size(), 6U);
  for (size_t i = 0; i < samples.size(); ++i) {
    EXPECT_EQ(samples[i].at("step"), 20 * (i / 2));
    EXPECT_EQ(samples[i].at("prompt"), kPrompts[i % 2]);
    EXPECT_LE(samples[i].at("tokens"), 12);
    EXPECT_EQ(field_names(samples[i]),
              (std::vector<std::string>{"time", "event", "step", "batch", "reason", "prompt",
                                        "text", "tokens", "end"}));
  }
}

TEST(Samples, TheyAreWhatGenerateWrites) {
  const RunDir& run = reference(with_samples()).run;
  for (const Json& sample : run.events("sample")) {
    if (sample.at("step") == 0) continue;  // no checkpoint
    const auto prompt = sample.at("prompt").get<std::string>();
    const ProcessResult result =
        lmtrain({"generate", run.checkpoint(sample.at("step")).string(), "--prompt", prompt,
                 "--max-tokens", "12", "--temperature", "0"});
    ASSERT_EQ(result.exit_code, 0) << result;
    EXPECT_EQ(result.out, prompt + sample.at("text").get<std::string>() + "\n");
  }
}

TEST(Samples, TheyChangeNoBit) {
  Json without = with_samples();
  without.erase("log");
  EXPECT_EQ(difference(reference(with_samples()).run, reference(without).run), "");
}

TEST(Samples, APersonSeesThem) {
  const Reference& expected = reference(with_samples());
  const RunDir run(expected.fresh("seen"));
  const ProcessResult result = lmtrain({"train", expected.config, "--run-dir", run.path()});
  ASSERT_EQ(result.exit_code, 0) << result;
  EXPECT_NE(result.err.find("sample     \"def f(x):\\n\" > \""), std::string::npos) << result;
  EXPECT_EQ(run.events("sample").size(), 6U);
}

TEST(Samples, AfterAResumeThoseToComeAreTheSame) {
  const Reference& expected = reference(with_samples());
  const RunDir run(expected.fresh("killed"));
  LmtrainProcess process({"train", expected.config, "--run-dir", run.path()});
  ASSERT_TRUE(process.wait_until([&] { return run.has_metrics_line("{\"step\":23,"); }));
  process.send(SIGKILL);
  process.wait();
  ASSERT_EQ(resume(run).exit_code, 0);
  EXPECT_EQ(difference(run, expected.run), "");
  EXPECT_EQ(run.events("sample").back().at("text"),
            expected.run.events("sample").back().at("text"));
}

// Without held-out text there is no loss, and the model writes all the same.
TEST(Samples, WithoutHeldOutText) {
  Json changes = with_samples();
  changes["data"] = {{"eval", nullptr}, {"eval_fraction", 0}};
  EXPECT_EQ(reference(changes).run.events("sample").size(), 6U);
}

TEST(Samples, APromptThatDoesNotFitIsRefused) {
  const Workspace workspace;
  Json changes = with_samples();
  std::string text = "word";
  for (int i = 0; i < 7; ++i) text += " " + text;
  changes["log"]["samples"]["prompts"] = {"short", text};
  const std::string config = workspace.config(changes);
  const std::string run = (workspace / "run").string();
  const std::string part = "/log/samples/prompts/1 (\"word word";
  const ProcessResult train = lmtrain({"train", config, "--run-dir", run});
  EXPECT_EQ(train.exit_code, 2) << train;
  EXPECT_NE(train.err.find(part), std::string::npos) << train;
  EXPECT_NE(train.err.find("the model has 64 positions"), std::string::npos) << train;
  EXPECT_FALSE(std::filesystem::exists(run));
  const ProcessResult plan = lmtrain({"plan", config});
  EXPECT_NE(plan.out.find(part), std::string::npos) << plan;
}

}  // namespace
}  // namespace lmtrain::testing
