// Schedule-free AdamW keeps its average in the masters, and trains at other weights.
#include "optim/elementwise/schedule_free.h"

#include "base/error.h"
#include "optim/support.h"

namespace lmtrain {
namespace {

using testing::config_of;
using testing::flat_moment;
using testing::largest_difference;
using testing::random_tensor;
using testing::same_bits;
using testing::small_parameters;

class ScheduleFreeTest : public ::testing::TestWithParam<at::ScalarType> {
 protected:
  ScheduleFreeTest()
      : parameters_(small_parameters(GetParam(), 37, /*separate=*/true)),
        optimizer_(make_optimizer(config_of("schedule_free"), parameters_)) {
    in_tensors_ = at::zeros_like(parameters_.master());
    for (const ParameterSpec& spec : parameters_.layout().parameters())
      in_tensors_.narrow(0, spec.offset, spec.numel()).fill_(1);
  }

  void update(int64_t step, double lr) {
    const at::Tensor grad = random_tensor(parameters_.master().sizes(), static_cast<uint64_t>(step),
                                          parameters_.master().scalar_type());
    optimizer_->update({step, lr, 0.5, {.total = 100}}, grad * in_tensors_);
  }
  at::Tensor z() const { return flat_moment(*optimizer_, parameters_.layout(), "z"); }

  Parameters parameters_;
  std::unique_ptr<Optimizer> optimizer_;
  at::Tensor in_tensors_;  // 0 in the gaps between them, whose gradient is 0
};

TEST_P(ScheduleFreeTest, TheMastersAreTheAverageOfZByTheSquaresOfItsRates) {
  const std::vector<double> rates = {0.01, 0.02, 0.03, 0.03, 0.015};
  at::Tensor sum = at::zeros_like(parameters_.master(), at::kDouble);
  double weights = 0;
  for (size_t i = 0; i < rates.size(); ++i) {
    update(static_cast<int64_t>(i) + 1, rates[i]);
    sum += z().to(at::kDouble) * rates[i] * rates[i];
    weights += rates[i] * rates[i];
    EXPECT_LE(largest_difference(parameters_.master(), sum / weights),
              GetParam() == at::kDouble ? 1e-14 : 1e-6);
    EXPECT_GT(largest_difference(parameters_.master(), z()), i == 0 ? -1 : 1e-3);
  }
}

// A warm-up that begins at 0, and rates whose squares fp32 cannot hold.
TEST_P(ScheduleFreeTest, ARateOfAboutZeroMovesNothing) {
  const at::Tensor before = parameters_.master().clone();
  int64_t step = 0;
  for (const double rate : {0.0, 1e-30, 1e-20}) {
    update(++step, rate);
    EXPECT_LE(largest_difference(parameters_.master(), before), 1e-15) << rate;
    optimizer_->refresh_working();
    EXPECT_LE(largest_difference(parameters_.working(), before.to(GetParam())), 1e-15) << rate;
  }
  update(++step, 0.02);
  EXPECT_GT(largest_difference(parameters_.master(), before), 1e-3);
  EXPECT_LE(largest_difference(parameters_.master(), z()), 1e-8);
}

TEST_P(ScheduleFreeTest, TheWorkingWeightsLieBetweenAverageAndZ) {
  for (int64_t step = 1; step <= 3; ++step) update(step, 0.02);
  const at::Tensor x = parameters_.master(), working = parameters_.working();
  const at::Tensor y = (0.9 * x.to(at::kDouble) + 0.1 * z().to(at::kDouble));
  EXPECT_LE(largest_difference(working, y), GetParam() == at::kBFloat16 ? 1e-2 : 1e-6);
  EXPECT_GT(largest_difference(working, x), 1e-3);
  // Working weights that were the masters for a while are those bits again.
  const at::Tensor trained = working.clone();
  parameters_.refresh_working();
  EXPECT_FALSE(same_bits(working, trained));
  optimizer_->refresh_working();
  EXPECT_TRUE(same_bits(working, trained));
}

TEST_P(ScheduleFreeTest, BeforeTheFirstUpdateItTrainsAtTheMasters) {
  optimizer_->refresh_working();
  EXPECT_TRUE(same_bits(parameters_.working(), parameters_.master().to(GetParam())));
}

INSTANTIATE_TEST_SUITE_P(Working, ScheduleFreeTest,
                         ::testing::Values(at::kFloat, at::kBFloat16, at::kDouble));

TEST(ScheduleFree, NeedsWorkingWeightsOfTheirOwn) {
  Parameters shared = small_parameters();
  const auto optimizer = make_optimizer(config_of("schedule_free"), shared);
  EXPECT_THROW(optimizer->update({1, 0.1, 1, {.total = 100}}, at::zeros_like(shared.master())),
               Error);
}

}  // namespace
}  // namespace lmtrain
