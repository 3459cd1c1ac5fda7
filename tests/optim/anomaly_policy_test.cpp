#include "optim/anomaly_policy.h"

#include <gtest/gtest.h>

#include <cmath>

namespace lmtrain {
namespace {

GuardConfig guard(GuardPolicy on_nonfinite, GuardPolicy on_spike = GuardPolicy::kOff) {
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

TEST(AnomalyPolicy, AGoodStepIsApplied) {
  for (const GuardPolicy policy :
       {GuardPolicy::kOff, GuardPolicy::kSkip, GuardPolicy::kRollback, GuardPolicy::kStop}) {
    const StepDecision decision = decide_step(guard(policy, policy), seen(), nullptr, 16, 1.0, 1.0);
    EXPECT_EQ(decision.action, StepAction::kApply);
    EXPECT_EQ(decision.anomaly, Anomaly::kNone);
  }
}

TEST(AnomalyPolicy, EachPolicyHasItsAction) {
  struct Case {
    GuardPolicy policy;
    StepAction action;
  };
  for (const Case& c :
       {Case{GuardPolicy::kSkip, StepAction::kSkip},
        Case{GuardPolicy::kRollback, StepAction::kRollback},
        Case{GuardPolicy::kStop, StepAction::kStop}, Case{GuardPolicy::kOff, StepAction::kApply}}) {
    EXPECT_EQ(decide_step(guard(c.policy), {}, nullptr, 16, NAN, 1).action, c.action);
    EXPECT_EQ(decide_step(guard(c.policy), {}, nullptr, 16, 1, INFINITY).action, c.action);
    const StepDecision spike =
        decide_step(guard(GuardPolicy::kOff, c.policy), seen(), nullptr, 16, 50.0, 1.0);
    EXPECT_EQ(spike.action, c.action);
    EXPECT_EQ(spike.anomaly == Anomaly::kSpike, c.action != StepAction::kApply);
  }
}

TEST(AnomalyPolicy, AnOverflowOfTheLossScaleIsSkippedWhateverThePolicy) {
  LossScale scale;
  for (const GuardPolicy policy : {GuardPolicy::kOff, GuardPolicy::kStop}) {
    const StepDecision decision = decide_step(guard(policy), {}, &scale, 16, 1.0, INFINITY);
    EXPECT_EQ(decision.action, StepAction::kSkip);
    EXPECT_TRUE(decision.overflow);
    EXPECT_FALSE(decision.counts_as_skip) << "the scale can still be lowered";
    EXPECT_EQ(decision.anomaly, Anomaly::kNone);
  }
  scale.scale = LossScale::kFloor;
  EXPECT_TRUE(decide_step(guard(GuardPolicy::kOff), {}, &scale, 16, 1.0, NAN).counts_as_skip);
  // A loss that is not finite is no overflow of the gradient.
  const StepDecision lost = decide_step(guard(GuardPolicy::kStop), {}, &scale, 16, NAN, NAN);
  EXPECT_FALSE(lost.overflow);
  EXPECT_EQ(lost.action, StepAction::kStop);
}

}  // namespace
}  // namespace lmtrain
