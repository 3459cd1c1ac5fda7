// `resume --verify`: equal for every kind of run, and different, with the name of what was
// forgotten, where something is.
#include "training/verify_resume.h"

#include <csignal>

#include "base/stop.h"
#include "e2e/tamper.h"
#include "training/tiny_run.h"

namespace lmtrain {
namespace {

namespace fs = std::filesystem;
using testing::error_of;
using testing::Json;
using testing::TinyRun;

using Tamper = std::function<void(const fs::path&)>;

// A run whose newest checkpoint is of step 20 of 40.
struct HalfRun : TinyRun {
  explicit HalfRun(const Json& changes = Json::object()) : TinyRun(changes) {
    Trainer trainer = this->trainer();
    trainer.run({.last_step = 20});
  }
};

ResumeCheck verify(const TinyRun& tiny, int64_t steps, const Tamper& tamper = nullptr) {
  return verify_resume(config_of_check(tiny.config), tiny.data, tiny.run, steps, only_process(),
                       tamper);
}

std::map<std::string, std::string> everything_in(const fs::path& folder) {
  std::map<std::string, std::string> files;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    const auto time = entry.last_write_time().time_since_epoch().count();
    files[entry.path().string()] =
        std::to_string(time) + (entry.is_regular_file() ? read_file(entry.path()) : "");
  }
  return files;
}

// A run that has ended early would end both ways at once.
TEST(VerifyResume, GoesOnWhereTheRunHasEndedEarly) {
  const HalfRun tiny(Json{{"eval", {{"early_stop", {{"patience", 1}, {"min_delta", 100}}}}}});
  const ResumeCheck check = verify(tiny, 6);
  EXPECT_EQ(check.steps, 6);
  EXPECT_EQ(check.differences, std::vector<std::string>{});
}

TEST(VerifyResume, IsEqualAndLeavesEverythingAsItIs) {
  const HalfRun half;
  const auto before = everything_in(half.run.path().parent_path());
  const ResumeCheck check = verify(half, 12);
  EXPECT_EQ(check.differences, std::vector<std::string>());
  EXPECT_EQ(check.from, 20);
  EXPECT_EQ(check.steps, 12);
  EXPECT_EQ(check.interrupted_after, 6);
  EXPECT_GT(check.seconds, 0);
  EXPECT_EQ(everything_in(half.run.path().parent_path()), before);
}

TEST(VerifyResume, IsEqualForEveryOptimizerPrecisionAndBatching) {
  const auto optimizer = [](const char* type) {
    return Json{{"optimizer", {{"type", type}, {"lr", 1e-3}}}};
  };
  Json soap = optimizer("soap");
  soap["optimizer"]["precondition_frequency"] = 5;
  std::vector<Json> cases = {optimizer("lion"), optimizer("ademamix"), optimizer("muon"), soap,
                             Json{{"precision", "fp16"}}};
  for (const char* type : {"sgd", "rmsprop", "adam", "adopt", "mars"})
    cases.push_back(optimizer(type));
  cases.push_back({{"precision", "auto"}});  // bf16 where the processor has it
  for (const char* batching : {"concat", "pad", "pack"})
    cases.push_back({{"sequence", {{"batching", batching}, {"schedule", {{"type", "constant"}}}}}});
  cases.push_back({{"train", {{"steps", nullptr}, {"epochs", 0.3}}}});
  cases.push_back({{"data", {{"eval", nullptr}, {"eval_fraction", 0.2}}},
                   {"train", {{"steps", nullptr}, {"tokens", 6000}}}});
  cases.push_back({{"eval", {{"every", "1s"}}}, {"guard", {{"on_spike", "skip"}, {"window", 8}}}});
  for (const Json& changes : cases) {
    const HalfRun half(changes);
    EXPECT_EQ(verify(half, 5).differences, std::vector<std::string>()) << changes;
  }
}

// fp16 that overflows in both halves: the loss scale goes through the checkpoint.
TEST(VerifyResume, IsEqualWhereTheLossScaleChanges) {
  const TinyRun tiny(Json{{"precision", "fp16"}, {"model", {{"initializer_range", 1.0}}}});
  EXPECT_EQ(verify(tiny, 10).differences, std::vector<std::string>());
}

TEST(VerifyResume, BeginsAtTheStartOrWhereTwoStepsAreLeft) {
  const TinyRun fresh;
  EXPECT_EQ(verify(fresh, 4).from, 0);
  EXPECT_EQ(verify(fresh, 4).differences, std::vector<std::string>());
  const TinyRun finished;
  finished.trainer().run();
  const ResumeCheck check = verify(finished, 100);
  EXPECT_EQ(check.from, 35) << "the newest is the end, and no step follows it";
  EXPECT_EQ(check.steps, 5);
  EXPECT_EQ(check.differences, std::vector<std::string>());
  const TinyRun one_step(Json{{"train", {{"steps", 1}}}});
  error_of(ErrorKind::kUsage, [&] { verify(one_step, 2); });
}

TEST(VerifyResume, PassesADamagedCheckpointOver) {
  const HalfRun half;
  testing::flip_bit(half.run.checkpoint(20) / "model.safetensors", -1);
  EXPECT_EQ(verify(half, 4).from, 15);
}

// Negative controls. Two steps: after the interruption there is one, so the first tensor that
// differs is the one whose moment was forgotten.
TEST(VerifyResume, AForgottenMomentIsNamed) {
  const HalfRun half;
  const std::string name = "exp_avg.model.layers.0.mlp.down_proj.weight";
  const ResumeCheck check =
      verify(half, 2, [&](const fs::path& middle) { testing::zero_moments(middle, name); });
  ASSERT_EQ(check.differences.size(), 2U);
  EXPECT_NE(check.differences[0].find("the weight model.layers.0.mlp.down_proj.weight[0, 0] is "),
            std::string::npos)
      << check.differences[0];
  EXPECT_NE(check.differences[0].find(" (0x"), std::string::npos) << check.differences[0];
  EXPECT_NE(check.differences[1].find("the optimizer's " + name + "[0, 0] is "), std::string::npos)
      << check.differences[1];
}

TEST(VerifyResume, EachForgottenFieldOfTheStateIsNamed) {
  struct Case {
    std::string field, named;
    std::function<void(Json&)> forget;
  };
  for (const Case& c :
       {Case{"batch", "the state's batch is ",
             [](Json& state) { state["batch"] = state["batch"].get<int64_t>() - 1; }},
        Case{"tokens", "the state's tokens is ", [](Json& state) { state["tokens"] = 0; }},
        Case{"loss_scale", "the state's loss_scale/good_in_a_row is ",
             [](Json& state) { state["loss_scale"]["good_in_a_row"] = 0; }},
        Case{"windows", "the state's guard/windows/",
             [](Json& state) { state["guard"]["windows"].clear(); }}}) {
    const HalfRun half(Json{{"precision", "fp16"},
                            {"guard", {{"on_spike", "skip"}, {"window", 8}}},
                            {"train", {{"steps", 40}}}});
    const ResumeCheck check =
        verify(half, 4, [&](const fs::path& middle) { testing::change_state(middle, c.forget); });
    const bool named = std::any_of(
        check.differences.begin(), check.differences.end(),
        [&](const std::string& text) { return text.find(c.named) != std::string::npos; });
    EXPECT_TRUE(named) << c.field << ": " << ::testing::PrintToString(check.differences);
  }
}

TEST(VerifyResume, ALineOfMetricsThatDiffersIsNamed) {
  const HalfRun half;
  const ResumeCheck check = verify(half, 4, [](const fs::path& middle) {
    testing::change_state(middle, [](Json& state) { state["tokens"] = 0; });
  });
  EXPECT_NE(check.differences.back().find("in metrics.jsonl, step 23, tokens is "),
            std::string::npos)
      << check.differences.back();
}

TEST(VerifyResume, WhatItHasWrittenGoesAlsoAfterAnError) {
  const HalfRun half;
  const auto before = everything_in(half.run.path().parent_path());
  error_of(ErrorKind::kCheckpoint, [&] {
    verify(half, 4,
           [](const fs::path& middle) { testing::flip_bit(middle / "model.safetensors", -1); });
  });
  EXPECT_EQ(everything_in(half.run.path().parent_path()), before);
}

}  // namespace
}  // namespace lmtrain
