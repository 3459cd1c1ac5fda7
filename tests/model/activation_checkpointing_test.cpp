// Activation checkpointing, and gradients summed by products: the same bits, in less memory.
#include "model/activation_checkpointing.h"

#include <ATen/ops/full_like.h>
#include <c10/core/Allocator.h>
#include <c10/util/ThreadLocalDebugInfo.h>
#include <gtest/gtest.h>

#include "model/llama.h"
#include "support/tensors.h"

namespace lmtrain {
namespace {

using testing::random_integers;
using testing::same_bits;

constexpr int64_t kVocabulary = 61;
constexpr int64_t kRows = 4;
constexpr int64_t kLength = 32;

ModelConfig deep_config(bool checkpointing, bool tied,
                        ModelArchitecture type = ModelArchitecture::kLlama) {
  ModelConfig config;
  config.model_type = type;
  config.hidden_size = 32;
  config.intermediate_size = 80;
  config.num_hidden_layers = 8;
  config.num_attention_heads = 4;
  config.num_key_value_heads = 2;
  config.tie_word_embeddings = tied;
  config.activation_checkpointing = checkpointing;
  return config;
}

// The most bytes of tensors on the CPU at once, while it lives, of those it saw coming.
class PeakBytes : public c10::MemoryReportingInfoBase {
 public:
  void reportMemoryUsage(void* /*data*/, int64_t size, size_t /*allocated*/, size_t /*reserved*/,
                         c10::Device /*device*/) override {
    now_ += size;
    peak_ = std::max(peak_, now_);
  }
  bool memoryProfilingEnabled() const override { return true; }
  int64_t peak() const { return peak_; }

 private:
  int64_t now_ = 0, peak_ = 0;
};

struct Result {
  at::Tensor loss, gradient;
  int64_t peak = 0;
};

struct Case {
  CompileMode compile = CompileMode::kScript;
  at::ScalarType dtype = at::kFloat;
  bool tied = true;
  std::vector<int32_t> segments = {};
  bool sum_by_products = false;
  ModelArchitecture type = ModelArchitecture::kLlama;
};

Result step(const Case& test, bool checkpointing) {
  const testing::Threads one_thread{1};
  const ModelConfig config = deep_config(checkpointing, test.tied, test.type);
  Parameters parameters(ParameterLayout(config, kVocabulary), test.dtype, at::kCPU);
  parameters.initialize(/*seed=*/5, /*initializer_range=*/0.2);
  Llama llama(config, parameters, kLength, test.compile);
  llama.sum_by_products(test.sum_by_products);
  const at::Tensor ids = random_integers(0, kVocabulary, {kRows, kLength}, 1);
  const at::Tensor targets = random_integers(0, kVocabulary, {kRows, kLength}, 2);
  Result result;
  result.gradient = at::zeros_like(parameters.master());
  const auto memory = std::make_shared<PeakBytes>();
  const c10::DebugInfoGuard watch(c10::DebugInfoKind::PROFILER_STATE, memory);
  // Twice: the second adds to the first.
  for (const bool first : {true, false}) {
    result.loss = llama.loss_and_gradient(micro_batch(ids, targets, 1.0 / 128, test.segments),
                                          result.gradient, first);
  }
  result.peak = memory->peak();
  return result;
}

TEST(Recompute, SameBitsInLessMemory) {
  std::vector<int32_t> segments = {0, 3, 20, 32, 64, 65, 96};
  const std::vector<Case> cases = {{CompileMode::kScript},
                                   {CompileMode::kEager},
                                   {CompileMode::kScript, at::kBFloat16},
                                   {CompileMode::kEager, at::kBFloat16},
                                   {CompileMode::kScript, at::kDouble},
                                   {CompileMode::kScript, at::kFloat, /*tied=*/false},
                                   {CompileMode::kScript, at::kBFloat16, true, segments},
                                   {CompileMode::kEager, at::kFloat, true, segments},
                                   {.type = ModelArchitecture::kQwen2},
                                   {.dtype = at::kBFloat16, .type = ModelArchitecture::kQwen2}};
  for (const Case& test : cases) {
    const Result kept = step(test, false);
    const Result computed_again = step(test, true);
    EXPECT_TRUE(same_bits(kept.loss, computed_again.loss)) << name_of(test.compile);
    EXPECT_TRUE(same_bits(kept.gradient, computed_again.gradient))
        << name_of(test.compile) << test.dtype;
    EXPECT_GT(kept.gradient.abs().max().item<double>(), 0);
    EXPECT_LT(computed_again.peak, kept.peak / 2) << name_of(test.compile) << test.dtype;
    EXPECT_GT(computed_again.peak, 0);
  }
}

// Each element is told of once, when it has its final value, and most of them while others have
// not.
TEST(FinishedElements, AreToldOfWhileTheBackwardGoesOn) {
  const testing::Threads one_thread{1};
  for (const bool checkpointing : {false, true}) {
    for (const bool tied : {false, true}) {
      for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16}) {
        const ModelConfig config = deep_config(checkpointing, tied);
        Parameters parameters(ParameterLayout(config, kVocabulary), dtype, at::kCPU);
        parameters.initialize(/*seed=*/5, /*initializer_range=*/0.2);
        Llama llama(config, parameters, kLength, CompileMode::kScript);
        const MicroBatch micro =
            micro_batch(random_integers(0, kVocabulary, {kRows, kLength}, 1),
                        random_integers(0, kVocabulary, {kRows, kLength}, 2), 1.0 / 128);
        const at::Tensor expected = at::zeros_like(parameters.master());
        const at::Tensor loss = llama.loss_and_gradient(micro, expected, true);
        for (const bool first : {true, false}) {  // the second adds to a sum
          if (!first) llama.loss_and_gradient(micro, expected, false);
          const at::Tensor grad = first ? at::full_like(expected, NAN) : expected / 2;
          const at::Tensor before = grad.clone();
          const at::Tensor told = grad.clone(), times = at::zeros_like(grad);
          std::vector<std::pair<int64_t, bool>> calls;  // offset; is the first layer untouched
          const int64_t first_layer = parameters.layout().working()[2].offset;
          const auto touched = [&](int64_t at) {
            return !same_bits(grad.narrow(0, at, 64), before.narrow(0, at, 64));
          };
          const at::Tensor again =
              llama.loss_and_gradient(micro, grad, first, [&](int64_t begin, int64_t size) {
                calls.emplace_back(begin, !touched(first_layer));
                told.narrow(0, begin, size).copy_(grad.narrow(0, begin, size));
                times.narrow(0, begin, size).add_(1);
              });
          EXPECT_TRUE(same_bits(again, loss));
          EXPECT_TRUE(same_bits(told, grad));
          EXPECT_EQ(times.max().item<double>(), 1);
          EXPECT_EQ(times.sum().item<double>(),
                    static_cast<double>(parameters.layout().num_parameters()));
          for (const WorkingSpec& spec : parameters.layout().working()) {
            EXPECT_TRUE(same_bits(grad.narrow(0, spec.offset, spec.numel()),
                                  expected.narrow(0, spec.offset, spec.numel())))
                << spec.key << checkpointing << tied << first;
          }
          const auto early = std::count_if(calls.begin(), calls.end(),
                                           [](const auto& call) { return call.second; });
          EXPECT_GT(2 * early, static_cast<std::ptrdiff_t>(calls.size()));
        }
      }
    }
  }
}

// Gradients that products add to the sum (ops/weight_gradient.h), as on a GPU: the same bits, but
// for weights that two operators read.
TEST(SumsByProducts, HaveTheBitsOfSumsAfterTheBackward) {
  bool saves_memory = false;  // not where the head's logits are the peak
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16}) {
    for (const bool checkpointing : {false, true}) {
      Case test{CompileMode::kScript, dtype, /*tied=*/false};
      const Result after = step(test, checkpointing);
      test.sum_by_products = true;
      const Result by_products = step(test, checkpointing);
      EXPECT_TRUE(same_bits(by_products.gradient, after.gradient));
      EXPECT_TRUE(same_bits(by_products.loss, after.loss));
      EXPECT_LE(by_products.peak, after.peak);
      saves_memory = saves_memory || by_products.peak < after.peak;
    }
  }
  EXPECT_TRUE(saves_memory);
}

// A step in one pass over the modules, as processes with divided weights make it, beside a step of
// each micro-batch: the same bits, also where products add to the sums. Two parts are added as a
// tree, and a part may have no rows.
TEST(ByModules, HasTheBitsOfMicroBatchesOneByOne) {
  struct Everything final : ModuleWeights {
    void start(size_t /*module*/) override {}
    void await() override {}
    void release(size_t /*module*/) override {}
  };
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16}) {
    for (const bool by_products : {false, true}) {
      for (const bool tied : {false, true}) {
        const testing::Threads one_thread{1};
        Parameters parameters(ParameterLayout(deep_config(true, tied), kVocabulary), dtype,
                              at::kCPU);
        parameters.initialize(/*seed=*/5, /*initializer_range=*/0.2);
        std::vector<MicroBatch> micros;
        for (uint64_t i = 0; i < 3; ++i) {
          micros.push_back(micro_batch(random_integers(0, kVocabulary, {kRows, kLength}, 2 * i),
                                       random_integers(0, kVocabulary, {kRows, kLength}, 2 * i + 1),
                                       1.0 / 128));
        }
        const auto model = [&] {
          auto llama = std::make_unique<Llama>(deep_config(true, tied), parameters, kLength,
                                               CompileMode::kScript);
          llama->sum_by_products(by_products);
          return llama;
        };
        const auto one_by_one = model();
        const at::Tensor expected = at::zeros_like(parameters.master());
        std::vector<at::Tensor> losses;
        for (const MicroBatch& micro : {micros[0], micros[1]})
          losses.push_back(one_by_one->loss_and_gradient(micro, expected, losses.empty()));
        const at::Tensor second = at::zeros_like(expected);
        losses.push_back(one_by_one->loss_and_gradient(micros[2], second, /*first=*/true));
        expected.add_(second);

        Everything everything;
        const auto whole = model();
        whole->read_by_modules(everything);
        const at::Tensor gradient = at::full_like(expected, 7);
        const auto by_part = whole->loss_and_gradient_by_modules(
            {{micros[0], micros[1]}, {micros[2]}}, gradient, 1, [](int64_t, int64_t) {});
        for (const ParameterSpec& spec : parameters.layout().parameters()) {
          EXPECT_TRUE(same_bits(gradient.narrow(0, spec.offset, spec.numel()),
                                expected.narrow(0, spec.offset, spec.numel())))
              << spec.name << " " << dtype << by_products << tied;
        }
        EXPECT_TRUE(same_bits(by_part[0][0], losses[0]));
        EXPECT_TRUE(same_bits(by_part[0][1], losses[1]));
        EXPECT_TRUE(same_bits(by_part[1][0], losses[2]));
        whole->loss_and_gradient_by_modules({{}}, gradient, 1, [](int64_t, int64_t) {});
        for (const ParameterSpec& spec : parameters.layout().parameters())
          EXPECT_EQ(gradient.narrow(0, spec.offset, spec.numel()).abs().max().item<double>(), 0);
      }
    }
  }
}

// What a layer keeps is its input; what it computes in between is gone until the backward.
TEST(Recompute, RunsTheLayerTwiceAndReachesItsWeights) {
  const at::Tensor w = at::full({3}, 2.0, at::kDouble).set_requires_grad(true);
  const at::Tensor x = at::arange(3, at::kDouble).set_requires_grad(true);
  int calls = 0;
  const LayerFunction layer = [&](const at::Tensor& input) {
    ++calls;
    return (input * w).square();
  };
  const at::Tensor y = checkpointed(layer, x, {w});
  EXPECT_EQ(calls, 1);
  y.sum().backward();
  EXPECT_EQ(calls, 2);
  EXPECT_TRUE(same_bits(x.grad(), 2 * x.detach() * w.detach().square()));
  EXPECT_TRUE(same_bits(w.grad(), 2 * w.detach() * x.detach().square()));
}

}  // namespace
}  // namespace lmtrain
