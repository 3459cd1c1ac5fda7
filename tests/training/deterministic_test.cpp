// `deterministic` on a CPU: ATen is asked, nothing a run needs is refused, and no bit changes.
#include <gtest/gtest.h>

#include "training/tiny_run.h"

namespace lmtrain {
namespace {

using testing::Json;
using testing::TinyRun;

class DeterministicTest : public ::testing::TestWithParam<const char*> {
 protected:
  void TearDown() override {
    at::globalContext().setDeterministicAlgorithms(false, false);
    at::globalContext().setSDPUseMemEfficient(true);
    at::globalContext().setSDPUseCuDNN(true);
  }
};

TEST_P(DeterministicTest, GivesTheBitsOfARunWithout) {
  std::vector<std::string> weights;
  for (const bool deterministic : {false, true}) {
    const TinyRun tiny(Json::object({{"deterministic", deterministic},
                                     {"optimizer", {{"type", GetParam()}}},
                                     {"train", {{"steps", 5}}}}));
    EXPECT_EQ(at::globalContext().deterministicAlgorithms(), deterministic);
    tiny.trainer().run();
    weights.push_back(tiny.bytes(5));
  }
  EXPECT_EQ(weights[0], weights[1]);
}

INSTANTIATE_TEST_SUITE_P(Optimizers, DeterministicTest,
                         ::testing::Values("adamw", "lion", "ademamix", "muon", "soap", "sgd",
                                           "rmsprop", "adam", "adopt", "mars"));

}  // namespace
}  // namespace lmtrain
