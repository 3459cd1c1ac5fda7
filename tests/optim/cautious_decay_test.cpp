// Cautious weight decay of every rule: the step is that of the rule without decay, and those
// weights decay that it moves towards zero.
#include "optim/support.h"

namespace lmtrain {
namespace {

using testing::config_of;
using testing::random_tensor;
using testing::small_parameters;

class CautiousDecay : public ::testing::TestWithParam<std::string> {};

TEST_P(CautiousDecay, DecaysWhatTheStepMovesTowardsZero) {
  const testing::Threads one_thread(1);
  constexpr double kRate = 0.01, kDecay = 0.5;
  // The fused kernels, and ATen operators on fp32 masters and on fp64.
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16, at::kHalf, at::kDouble}) {
    SCOPED_TRACE(at::toString(dtype));
    OptimizerConfig config = config_of(GetParam());
    config.weight_decay = 0;
    Parameters plain = small_parameters(dtype), cautious = small_parameters(dtype);
    const auto undecayed = make_optimizer(config, plain);
    config.weight_decay = kDecay;
    config.cautious_decay = true;
    const auto optimizer = make_optimizer(config, cautious);
    int64_t decayed = 0, spared = 0;
    for (int64_t step = 1; step <= 6; ++step) {
      // Each step begins where the cautious one is.
      plain.master().copy_(cautious.master());
      for (size_t i = 0; i < optimizer->buffers().size(); ++i)
        undecayed->buffers()[i].values.copy_(optimizer->buffers()[i].values);
      const at::Tensor before = cautious.master().clone();
      const at::Tensor grad =
          random_tensor(before.sizes(), static_cast<uint64_t>(step), before.scalar_type());
      grad.narrow(0, 0, 64).zero_();  // tokens that do not occur: their step is exactly zero
      const UpdateStep update{step, kRate, 1, {.total = 6}};
      undecayed->update(update, grad.clone());
      optimizer->update(update, grad.clone());
      for (const ParameterSpec& spec : cautious.layout().parameters()) {
        const at::Tensor w = before.narrow(0, spec.offset, spec.numel()).view(spec.shape);
        const at::Tensor moved = plain.master_view(spec);
        const at::Tensor towards_zero = (w - moved) * w > 0;
        const double amount = spec.shape.size() < 2 ? 0 : kRate * kDecay;
        const at::Tensor kept = 1 - amount * towards_zero.to(w.scalar_type());
        // SOAP decays after its step, as it does without caution.
        const at::Tensor expected = GetParam() == "soap" ? moved * kept : moved - w * (1 - kept);
        EXPECT_LE(testing::largest_difference(cautious.master_view(spec), expected),
                  dtype == at::kDouble ? 1e-14 : 1e-6)
            << spec.name << " step " << step;
        if (amount == 0) continue;
        decayed += towards_zero.sum().item<int64_t>();
        spared += towards_zero.logical_not().sum().item<int64_t>();
      }
      EXPECT_TRUE(testing::same_bits(cautious.master().narrow(0, 0, 64), before.narrow(0, 0, 64)));
      EXPECT_TRUE(testing::same_bits(cautious.working(),
                                     cautious.master().to(cautious.working().scalar_type())));
    }
    EXPECT_GT(decayed, 1000);
    EXPECT_GT(spared, 1000);
  }
}

INSTANTIATE_TEST_SUITE_P(Rules, CautiousDecay,
                         ::testing::Values("adamw", "lion", "ademamix", "muon", "normuon", "soap",
                                           "sgd", "rmsprop", "adopt", "mars"),
                         [](const auto& one) { return one.param; });

}  // namespace
}  // namespace lmtrain
