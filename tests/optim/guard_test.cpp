// How the guard judges a step, what it says of a refused batch, and which numbers end a run.
#include "optim/guard.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "base/support.h"
#include "prepare/source_runs.h"

namespace lmtrain {
namespace {

using testing::error_of;
using testing::TemporaryFolder;
using Action = Verdict::Action;
using Cause = Verdict::Cause;
using Json = nlohmann::ordered_json;

// ---- The cause ----

// Judges a step that is not in fp16.
Verdict judge(const GuardConfig& config, const GuardState& state, int64_t length, double loss,
              double grad_norm) {
  return judge_step(config, state, /*loss_scale=*/nullptr, length, loss, grad_norm);
}

GuardConfig spikes(int64_t window = 8) {
  GuardConfig config;
  config.on_spike = GuardPolicy::kSkip;
  config.spike_sigma = 6;
  config.window = window;
  return config;
}

// A window of `count` ordinary values at `length`: losses about 4, norms about 1.
void fill(const GuardConfig& config, GuardState& state, int64_t length, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    const double wave = 0.1 * std::sin(static_cast<double>(i));
    note_update(config, state, length, 4 + wave, 1 + wave);
  }
}

TEST(Guard, WhatIsNotFiniteIsNamed) {
  const GuardConfig config;
  const GuardState state;
  EXPECT_EQ(judge(config, state, 64, 4, 1).cause, Cause::kNone);
  for (const double bad : {static_cast<double>(NAN), HUGE_VAL, -HUGE_VAL}) {
    EXPECT_EQ(judge(config, state, 64, bad, 1).reason, "the loss is not finite");
    EXPECT_EQ(judge(config, state, 64, 4, bad).reason, "the gradient is not finite");
    EXPECT_EQ(judge(config, state, 64, bad, bad).cause, Cause::kNotFinite);
  }
  GuardConfig off;
  off.on_nonfinite = GuardPolicy::kOff;
  EXPECT_EQ(judge(off, state, 64, NAN, NAN).cause, Cause::kNone);
}

TEST(Guard, ASpikeOfLossOrNormIsOne) {
  const GuardConfig config = spikes();
  GuardState state;
  fill(config, state, 64, 20);
  EXPECT_EQ(judge(config, state, 64, 4.2, 1.2).cause, Cause::kNone);
  EXPECT_EQ(judge(config, state, 64, 8, 1).cause, Cause::kSpike);
  EXPECT_EQ(judge(config, state, 64, 4, 5).cause, Cause::kSpike);
  EXPECT_NE(judge(config, state, 64, 4, 5).reason.find("gradient norm"), std::string::npos);
  // A fall is none.
  EXPECT_EQ(judge(config, state, 64, 0.1, 0.01).cause, Cause::kNone);
  // Nor is anything while spikes are off.
  EXPECT_EQ(judge(GuardConfig{}, state, 64, 1e9, 1e9).cause, Cause::kNone);
}

TEST(Guard, TheLimitIsSigmasAboveTheMean) {
  GuardConfig config = spikes(4);
  GuardState state;
  for (const double loss : {1.0, 2.0, 3.0, 4.0}) note_update(config, state, 64, loss, 1);
  const double mean = 2.5;
  const double deviation = std::sqrt(5.0 / 3);
  for (const double sigmas : {2.0, 6.0}) {
    config.spike_sigma = sigmas;
    const double limit = mean + sigmas * deviation;
    EXPECT_EQ(judge(config, state, 64, limit - 1e-9, 1).cause, Cause::kNone);
    EXPECT_EQ(judge(config, state, 64, limit + 1e-9, 1).cause, Cause::kSpike);
  }
}

TEST(Guard, JudgesOnceTheWindowIsHalfFull) {
  const GuardConfig config = spikes(8);
  GuardState state;
  fill(config, state, 64, 3);
  EXPECT_EQ(judge(config, state, 64, 1e6, 1).cause, Cause::kNone);
  fill(config, state, 64, 1);
  EXPECT_EQ(judge(config, state, 64, 1e6, 1).cause, Cause::kSpike);
}

TEST(Guard, EachLengthHasItsOwnWindow) {
  const GuardConfig config = spikes();
  GuardState state;
  fill(config, state, 64, 8);
  for (int i = 0; i < 8; ++i) note_update(config, state, 1024, 40 + 0.1 * i, 1 + 0.1 * i);
  EXPECT_EQ(judge(config, state, 64, 40, 1).cause, Cause::kSpike);
  EXPECT_EQ(judge(config, state, 1024, 40, 1).cause, Cause::kNone);
  EXPECT_EQ(judge(config, state, 256, 40, 1).cause, Cause::kNone);
}

TEST(Guard, KeepsAWindowAndNothingThatIsNotFinite) {
  GuardConfig config = spikes(8);
  config.on_nonfinite = GuardPolicy::kOff;  // such updates are applied, and still do not enter
  GuardState state;
  for (int i = 0; i < 1000; ++i) {
    note_update(config, state, 64, i % 3 == 0 ? NAN : 4 + 0.1 * (i % 3), 1 + 0.1 * (i % 3));
  }
  EXPECT_EQ(state.windows.at(64).losses.size(), 8U);
  EXPECT_EQ(state.windows.at(64).grad_norms.size(), 8U);
  for (const double loss : state.windows.at(64).losses) EXPECT_TRUE(std::isfinite(loss));
  EXPECT_EQ(judge(config, state, 64, 40, 1).cause, Cause::kSpike);
}

TEST(Guard, EqualValuesMakeNoSpikeOfALittleMore) {
  const GuardConfig config = spikes();
  GuardState state;
  for (int i = 0; i < 8; ++i) note_update(config, state, 64, 4, 0);
  EXPECT_EQ(judge(config, state, 64, 4.001, 0).cause, Cause::kNone);
  EXPECT_EQ(judge(config, state, 64, 4.1, 0).cause, Cause::kSpike);
}

TEST(Guard, SkipsTheBatchesOfRollbacks) {
  GuardState state;
  EXPECT_FALSE(state.skips(0));
  state.skipped_batches = {5, 8};
  for (const int64_t batch : {5, 8}) EXPECT_TRUE(state.skips(batch)) << batch;
  for (const int64_t batch : {0, 4, 6, 7, 9}) EXPECT_FALSE(state.skips(batch)) << batch;
}

// ---- The action ----

GuardConfig with_policies(GuardPolicy on_nonfinite, GuardPolicy on_spike = GuardPolicy::kOff) {
  GuardConfig config;
  config.on_nonfinite = on_nonfinite;
  config.on_spike = on_spike;
  config.window = 4;
  config.spike_sigma = 3;
  return config;
}

// Enough good losses at length 16 for a spike to be told.
GuardState seen() {
  GuardState state;
  state.windows[16] = {{1.0, 1.1, 0.9, 1.0}, {1.0, 1.1, 0.9, 1.0}};
  return state;
}

TEST(Guard, AGoodStepIsApplied) {
  for (const GuardPolicy policy :
       {GuardPolicy::kOff, GuardPolicy::kSkip, GuardPolicy::kRollback, GuardPolicy::kStop}) {
    const Verdict verdict =
        judge_step(with_policies(policy, policy), seen(), nullptr, 16, 1.0, 1.0);
    EXPECT_EQ(verdict.action, Action::kApply);
    EXPECT_EQ(verdict.cause, Cause::kNone);
  }
}

TEST(Guard, EachPolicyHasItsAction) {
  struct Case {
    GuardPolicy policy;
    Action action;
  };
  for (const Case& c :
       {Case{GuardPolicy::kSkip, Action::kSkip}, Case{GuardPolicy::kRollback, Action::kRollback},
        Case{GuardPolicy::kStop, Action::kStop}, Case{GuardPolicy::kOff, Action::kApply}}) {
    EXPECT_EQ(judge_step(with_policies(c.policy), {}, nullptr, 16, NAN, 1).action, c.action);
    EXPECT_EQ(judge_step(with_policies(c.policy), {}, nullptr, 16, 1, INFINITY).action, c.action);
    const Verdict spike =
        judge_step(with_policies(GuardPolicy::kOff, c.policy), seen(), nullptr, 16, 50.0, 1.0);
    EXPECT_EQ(spike.action, c.action);
    EXPECT_EQ(spike.cause == Cause::kSpike, c.action != Action::kApply);
  }
}

TEST(Guard, AnOverflowOfTheLossScaleIsSkippedWhateverThePolicy) {
  LossScale scale;
  for (const GuardPolicy policy : {GuardPolicy::kOff, GuardPolicy::kStop}) {
    const Verdict verdict = judge_step(with_policies(policy), {}, &scale, 16, 1.0, INFINITY);
    EXPECT_EQ(verdict.action, Action::kSkip);
    EXPECT_EQ(verdict.cause, Cause::kOverflow);
    EXPECT_FALSE(verdict.counts_as_skip) << "the scale can still be lowered";
  }
  scale.scale = LossScale::kFloor;
  EXPECT_TRUE(
      judge_step(with_policies(GuardPolicy::kOff), {}, &scale, 16, 1.0, NAN).counts_as_skip);
  // A loss that is not finite is no overflow of the gradient.
  const Verdict lost = judge_step(with_policies(GuardPolicy::kStop), {}, &scale, 16, NAN, NAN);
  EXPECT_EQ(lost.cause, Cause::kNotFinite);
  EXPECT_EQ(lost.action, Action::kStop);
}

// ---- A refused batch, and the end of a run ----

Batch a_batch() {
  Batch batch;
  batch.index = 17;
  batch.length = 64;
  batch.documents = {4, 2, 4, 9};
  return batch;
}

TEST(RefusedBatch, NamesItsDocumentsAndTheirFilesOnce) {
  const TemporaryFolder folder;
  const auto table = folder / "files.json";
  write_document_files(table, {{0, "/text/a"}, {3, "/text/b"}, {8, "/text/c"}});
  const RefusedBatch refused = describe_refused(a_batch(), 2.5, NAN, "", table);
  const Json expected = {{"skipped_batch", 17},
                         {"seq_len", 64},
                         {"documents", {2, 4, 9}},
                         {"files", {"/text/a", "/text/b", "/text/c"}},
                         {"loss", 2.5},
                         {"grad_norm", nullptr},
                         {"tensor", nullptr}};
  EXPECT_EQ(refused_fields(refused).dump(), expected.dump());
}

TEST(RefusedBatch, NamesTensorAndLossScaleWhereTheyAreKnown) {
  const TemporaryFolder folder;
  RefusedBatch refused =
      describe_refused(a_batch(), NAN, 1.5, "model.embed_tokens.weight", folder / "gone.json");
  EXPECT_TRUE(refused_fields(refused).at("files").is_null());
  EXPECT_TRUE(refused_fields(refused).at("loss").is_null());
  EXPECT_EQ(refused_fields(refused).at("tensor"), "model.embed_tokens.weight");
  EXPECT_FALSE(refused_fields(refused).contains("loss_scale"));
  refused.loss_scale = 1024;
  EXPECT_EQ(refused_fields(refused).at("loss_scale"), 1024);
}

TEST(RefusedBatch, AStopNamesTheStepTheBatchAndTheSetting) {
  RefusedBatch refused;
  refused.batch = 17;
  Verdict verdict;
  verdict.reason = "the loss is not finite";
  verdict.cause = Cause::kNotFinite;
  std::string message =
      error_of(ErrorKind::kNumeric, [&] { throw stopped_by_guard(11, refused, verdict); });
  EXPECT_EQ(message.find("step 12, batch 17: the loss is not finite; guard.on_nonfinite is"), 0U)
      << message;
  verdict.cause = Cause::kSpike;
  message = error_of(ErrorKind::kNumeric, [&] { throw stopped_by_guard(11, refused, verdict); });
  EXPECT_NE(message.find("guard.on_spike is \"stop\""), std::string::npos) << message;
}

TEST(Diverged, WeightsThatAreLostEndARun) {
  Config config;
  require_finite_weights(config, "", 9);
  require_finite_end(config, "", 9, 2.0);

  const std::string bad = "model.embed_tokens.weight";
  const auto each = [&](const auto& expect) {
    expect(error_of(ErrorKind::kNumeric, [&] { require_finite_weights(config, bad, 9); }));
    expect(error_of(ErrorKind::kNumeric, [&] { require_finite_end(config, bad, 9, 2.0); }));
    expect(error_of(ErrorKind::kNumeric,
                    [&] { require_only_loss_lost(config, bad, 9, /*is_last=*/false); }));
  };
  each([](const std::string& message) {
    EXPECT_EQ(message.find("diverged: after step 9 the weights are not finite (first: "
                           "model.embed_tokens.weight)"),
              0U)
        << message;
    EXPECT_EQ(message.find("on_nonfinite"), std::string::npos) << message;
  });
  config.guard.on_nonfinite = GuardPolicy::kOff;
  each([](const std::string& message) {
    EXPECT_NE(message.find("guard.on_nonfinite is \"off\""), std::string::npos) << message;
  });
}

// With finite weights a loss that is not finite ends a run only where no step follows.
TEST(Diverged, ALossThatIsNotFiniteEndsARunAtItsEnd) {
  const Config config;
  require_only_loss_lost(config, "", 9, /*is_last=*/false);
  std::string message = error_of(ErrorKind::kNumeric,
                                 [&] { require_only_loss_lost(config, "", 9, /*is_last=*/true); });
  EXPECT_NE(message.find("the held-out loss is not finite"), std::string::npos) << message;
  message = error_of(ErrorKind::kNumeric, [&] { require_finite_end(config, "", 9, NAN); });
  EXPECT_NE(message.find("the loss of the last step is not finite"), std::string::npos) << message;
  // A checkpoint has kept it like this.
  error_of(ErrorKind::kNumeric, [&] { require_finite_end(config, "", 9, std::nullopt); });
  require_finite_end(config, "", 0, std::nullopt);
}

}  // namespace
}  // namespace lmtrain
