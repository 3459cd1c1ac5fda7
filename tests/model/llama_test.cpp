// Our Llama against transformers' LlamaForCausalLM: tests/reference/llama.
#include "model/llama.h"

#include <ATen/ops/allclose.h>
#include <ATen/ops/cosine_similarity.h>
#include <ATen/ops/full_like.h>
#include <gtest/gtest.h>

#include <chrono>
#include <numeric>
#include <thread>

#include "base/error.h"
#include "base/support.h"
#include "ops/flash_attention.h"
#include "support/busy_processor.h"
#include "support/llama_case.h"
#include "support/models.h"
#include "support/operator_calls.h"

namespace lmtrain {
namespace {

using testing::largest_difference;
using testing::LlamaCase;
using testing::part;
using testing::same_bits;
using testing::Threads;

// Case and `compile`.
class LlamaParityTest : public ::testing::TestWithParam<std::tuple<std::string, CompileMode>> {
 protected:
  LlamaCase golden_{std::get<0>(GetParam())};
  Llama llama_ = golden_.llama(std::get<1>(GetParam()));
};

TEST_P(LlamaParityTest, LogitsAreThoseOfTransformers) {
  const at::Tensor logits = llama_.logits(golden_.tensor("input_ids"));
  const at::Tensor expected = golden_.tensor("logits");
  EXPECT_TRUE(at::allclose(logits, expected, /*rtol=*/1.3e-6, /*atol=*/1e-5));
  const double difference = largest_difference(logits, expected);
  EXPECT_LE(difference, 2e-6);
  testing::record_difference("difference", difference);
}

TEST_P(LlamaParityTest, LossAndEveryGradientAreThoseOfTransformers) {
  const at::Tensor ids = golden_.tensor("input_ids");
  const at::Tensor labels = golden_.tensor("labels");
  const at::Tensor gradient = golden_.new_gradient();
  const double loss =
      llama_.loss_and_gradient(micro_batch(ids, labels, golden_.mean_scale()), gradient, true)
          .item<double>();
  EXPECT_NEAR(loss, golden_.golden.at("loss").get<double>(), 1e-6 * std::max(1.0, loss));
  double largest = 0;
  for (const ParameterSpec& spec : golden_.parameters.layout().parameters()) {
    const at::Tensor expected = golden_.tensor("grad." + spec.name);
    EXPECT_GT(expected.abs().max().item<double>(), 1e-4) << spec.name << ": nothing to compare";
    const double difference = largest_difference(part(gradient, spec), expected);
    EXPECT_LE(difference, 1e-6) << spec.name;
    largest = std::max(largest, difference);
  }
  testing::record_difference("difference", largest);
  // Without a gradient the losses of the targets have the same sum, to the last bit.
  const at::Tensor losses = llama_.target_losses(micro_batch(ids, labels, golden_.mean_scale()));
  const float* first = losses.data_ptr<float>();
  const double sum = std::accumulate(first, first + losses.numel(), 0.0);
  EXPECT_EQ(static_cast<float>(sum * golden_.mean_scale()), static_cast<float>(loss));
}

INSTANTIATE_TEST_SUITE_P(
    Reference, LlamaParityTest,
    ::testing::Combine(::testing::ValuesIn(testing::llama_cases()),
                       ::testing::Values(CompileMode::kEager, CompileMode::kScript)),
    [](const auto& one) { return std::get<0>(one.param) + "_" + name_of(std::get<1>(one.param)); });

// The loss of transformers is that with biases: without one of the three it is another.
TEST(Llama, TheBiasesOfAQwen2AreInItsLoss) {
  for (const char* name : {"qwen2_tied", "qwen2_untied"}) {
    for (const char* dropped : {"", "q_proj.bias", "v_proj.bias"}) {
      LlamaCase golden(name);
      int biases = 0;
      for (const ParameterSpec& spec : golden.parameters.layout().parameters()) {
        if (*dropped == 0 || !spec.name.ends_with(dropped)) continue;
        golden.parameters.master_view(spec).zero_();
        ++biases;
      }
      EXPECT_EQ(biases, *dropped == 0 ? 0 : 2);
      const double loss =
          golden.llama()
              .loss_and_gradient(micro_batch(golden.tensor("input_ids"), golden.tensor("labels"),
                                             golden.mean_scale()),
                                 golden.new_gradient(), true)
              .item<double>();
      const double difference = std::abs(loss - golden.golden.at("loss").get<double>());
      if (*dropped == 0) {
        EXPECT_LE(difference, 1e-6 * loss) << name;
      } else {
        EXPECT_GE(difference, 1e-3) << name << " without " << dropped;
      }
    }
  }
}

TEST(Llama, EagerAndScriptGiveTheSameBits) {
  for (const std::string& name : testing::llama_cases()) {
    for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16}) {
      LlamaCase golden(name, dtype);
      const at::Tensor ids = golden.tensor("input_ids");
      std::vector<at::Tensor> results[2];
      for (const size_t i : {0U, 1U}) {
        Llama llama = golden.llama(i == 0 ? CompileMode::kEager : CompileMode::kScript);
        at::Tensor gradient = golden.new_gradient();
        results[i] = {llama.logits(ids),
                      llama.loss_and_gradient(micro_batch(ids, golden.tensor("labels"), 1.0),
                                              gradient, true)};
        results[i].push_back(gradient);
      }
      for (size_t i = 0; i < 3; ++i) {
        EXPECT_TRUE(same_bits(results[0][i], results[1][i])) << name << " result " << i;
      }
    }
  }
}

TEST(Llama, CallsBeforeDoNotChangeTheBits) {
  LlamaCase golden("gqa_untied");
  const at::Tensor ids = golden.tensor("input_ids");
  const at::Tensor labels = golden.tensor("labels");
  for (const CompileMode compile : {CompileMode::kEager, CompileMode::kScript}) {
    Llama llama = golden.llama(compile);
    const at::Tensor first = golden.new_gradient(), later = golden.new_gradient();
    const at::Tensor loss = llama.loss_and_gradient(micro_batch(ids, labels, 1.0), first, true);
    for (const int64_t length : {1, 3, 9}) {
      llama.loss_and_gradient(
          micro_batch(ids.narrow(1, 0, length), labels.narrow(1, 0, length), 1.0), later, true);
    }
    EXPECT_TRUE(
        same_bits(llama.loss_and_gradient(micro_batch(ids, labels, 1.0), later, true), loss));
    EXPECT_TRUE(same_bits(first, later));
  }
}

// Twice with the same threads gives the same bits.
TEST(Llama, RunsTwiceToTheSameBits) {
  const ModelConfig config = testing::two_layer_model();
  const Threads scope(2);
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16}) {
    Parameters parameters(ParameterLayout(config, 503), dtype, at::kCPU);
    parameters.initialize(1, 0.02);
    Llama llama(config, parameters, 256, CompileMode::kScript);
    const at::Tensor ids = testing::random_integers(0, 503, {4, 256}, 1);
    const at::Tensor labels = testing::random_integers(-1, 503, {4, 256}, 2);
    const at::Tensor first = at::zeros_like(parameters.master());
    const at::Tensor again = at::zeros_like(parameters.master());
    const at::Tensor loss = llama.loss_and_gradient(micro_batch(ids, labels, 1e-3), first, true);
    for (int i = 0; i < 3; ++i) {
      EXPECT_TRUE(
          same_bits(llama.loss_and_gradient(micro_batch(ids, labels, 1e-3), again, true), loss));
      EXPECT_TRUE(same_bits(first, again));
    }
  }
}

TEST(Llama, MicroBatchesAddUpToTheBatch) {
  LlamaCase golden("gqa_untied");  // four ragged rows
  const at::Tensor ids = golden.tensor("input_ids");
  const at::Tensor labels = golden.tensor("labels");
  ASSERT_EQ(ids.size(0), 4);
  const double scale = golden.mean_scale();
  Llama llama = golden.llama(CompileMode::kScript);
  const at::Tensor whole = golden.new_gradient();
  const double loss =
      llama.loss_and_gradient(micro_batch(ids, labels, scale), whole, true).item<double>();
  for (const int64_t parts : {1, 2, 4}) {
    const at::Tensor gradient = at::full_like(whole, 7.0);  // `first` puts, whatever was there
    double sum = 0;
    const int64_t rows = 4 / parts;
    for (int64_t i = 0; i < parts; ++i) {
      sum += llama
                 .loss_and_gradient(micro_batch(ids.narrow(0, i * rows, rows),
                                                labels.narrow(0, i * rows, rows), scale),
                                    gradient, i == 0)
                 .item<double>();
    }
    EXPECT_NEAR(sum, loss, 1e-6);
    for (const ParameterSpec& spec : golden.parameters.layout().parameters()) {
      EXPECT_LE(largest_difference(part(gradient, spec), part(whole, spec)), 1e-6) << spec.name;
    }
  }
  // The mean of the rows' means, what a loop that forgets the weights computes, is another number.
  const at::Tensor wrong = golden.new_gradient();
  double mean_of_means = 0;
  for (int64_t i = 0; i < 4; ++i) {
    const at::Tensor row = labels.narrow(0, i, 1);
    const double targets = (row >= 0).sum().item<double>();
    mean_of_means +=
        llama
            .loss_and_gradient(micro_batch(ids.narrow(0, i, 1), row, 0.25 / targets), wrong, i == 0)
            .item<double>();
  }
  EXPECT_GT(std::abs(mean_of_means - loss), 1e-4);
  EXPECT_GT((wrong - whole).abs().max().item<double>(), 1e-4);
}

TEST(Llama, PaddingRowsAndPositionsCountNothing) {
  LlamaCase golden("mqa_tied");
  const at::Tensor ids = golden.tensor("input_ids");
  const at::Tensor labels = golden.tensor("labels");
  Llama llama = golden.llama();
  const at::Tensor plain = golden.new_gradient(), padded = golden.new_gradient();
  const double loss =
      llama.loss_and_gradient(micro_batch(ids, labels, 0.1), plain, true).item<double>();
  const at::Tensor more_ids = at::constant_pad_nd(ids, {0, 5, 0, 2}, 3);
  const at::Tensor more_labels = at::constant_pad_nd(labels, {0, 5, 0, 2}, -100);
  EXPECT_NEAR(
      llama.loss_and_gradient(micro_batch(more_ids, more_labels, 0.1), padded, true).item<double>(),
      loss, 1e-6 * loss);
  EXPECT_LE(largest_difference(padded, plain), 1e-6);
}

TEST(Llama, Bf16IsNearFp32) {
  for (const std::string& name : testing::llama_cases()) {
    LlamaCase golden(name, at::kBFloat16);
    Llama llama = golden.llama(CompileMode::kScript);
    const at::Tensor logits = llama.logits(golden.tensor("input_ids"));
    EXPECT_EQ(logits.scalar_type(), at::kBFloat16);
    EXPECT_LE(largest_difference(logits, golden.tensor("logits")), 5e-2) << name;
    const at::Tensor gradient = golden.new_gradient();
    const at::Tensor loss = llama.loss_and_gradient(
        micro_batch(golden.tensor("input_ids"), golden.tensor("labels"), golden.mean_scale()),
        gradient, true);
    EXPECT_EQ(loss.scalar_type(), at::kFloat);
    EXPECT_NEAR(loss.item<double>(), golden.golden.at("loss").get<double>(), 2e-2) << name;
    for (const ParameterSpec& spec : golden.parameters.layout().parameters()) {
      const at::Tensor expected = golden.tensor("grad." + spec.name).flatten();
      const at::Tensor actual = part(gradient, spec).flatten();
      const double cosine = at::cosine_similarity(actual, expected, 0).item<double>();
      EXPECT_GT(cosine, 0.995) << name << " " << spec.name;
    }
  }
}

TEST(Llama, HeadOfStatesIsTheLogits) {
  for (const CompileMode compile : {CompileMode::kEager, CompileMode::kScript}) {
    LlamaCase golden("gqa_untied");
    Llama llama = golden.llama(compile);
    const at::Tensor ids = golden.tensor("input_ids");
    const at::Tensor logits_NV = llama.logits(ids).flatten(0, 1);
    const at::Tensor states_ND = llama.states(ids).flatten(0, 1);
    EXPECT_TRUE(same_bits(llama.head(states_ND), logits_NV));
    const at::Tensor some = at::tensor({3L, 0L, 7L});
    EXPECT_LE(largest_difference(llama.head(states_ND.index_select(0, some)),
                                 logits_NV.index_select(0, some)),
              1e-6);
  }
}

TEST(Llama, LaterTokensDoNotReachBack) {
  LlamaCase golden("head_dim");
  Llama llama = golden.llama();
  const at::Tensor ids = golden.tensor("input_ids");
  at::Tensor changed = ids.clone();
  changed.select(1, 7).fill_(5);
  const at::Tensor before = llama.logits(ids), after = llama.logits(changed);
  EXPECT_LE(largest_difference(before.narrow(1, 0, 7), after.narrow(1, 0, 7)), 1e-6);
  EXPECT_GT(largest_difference(before.narrow(1, 7, 1), after.narrow(1, 7, 1)), 1e-2);
}

// The leaves are views of the working weights: an update in place is seen by the next call.
TEST(Llama, SeesWeightsThatWereUpdatedInPlace) {
  LlamaCase golden("mha_tied", at::kBFloat16);
  Llama llama = golden.llama(CompileMode::kScript);
  const at::Tensor ids = golden.tensor("input_ids");
  const at::Tensor before = llama.logits(ids);
  {
    const at::NoGradGuard no_grad;
    golden.parameters.master().mul_(0.5);
    EXPECT_TRUE(same_bits(llama.logits(ids), before));
    golden.parameters.refresh_working();
  }
  EXPECT_GT(largest_difference(llama.logits(ids), before), 1e-2);
}

// Evaluation and generation call nothing but the model. A new thread's waits are long; the tests
// before may have left this one's short.
TEST(Llama, ItsThreadsWaitShortlyOnABusyProcessor) {
  if (const std::string why = testing::why_waits_stay(); !why.empty()) GTEST_SKIP() << why;
  LlamaCase golden("mha_tied");
  Llama llama = golden.llama();
  const at::Tensor ids = golden.tensor("input_ids");
  bool is_short = false;
  std::thread([&] {
    const auto begin = std::chrono::steady_clock::now();
    const testing::BusyProcessor busy;
    const int64_t with_team = testing::num_threads_of_process() + at::get_num_threads() - 1;
    while (!is_short && std::chrono::steady_clock::now() - begin < std::chrono::minutes(1)) {
      llama.logits(ids);
      // The threads beside the team are the sleepers of device/spin_control.h.
      is_short = testing::num_threads_of_process() > with_team;
    }
  }).join();
  EXPECT_TRUE(is_short);
}

TEST(Llama, RefusesARowLongerThanItsTables) {
  LlamaCase golden("mha_tied");
  Llama llama(golden.config, golden.parameters, 8, CompileMode::kEager);
  EXPECT_EQ(llama.max_length(), 8);
  llama.logits(at::zeros({1, 8}, at::kLong));
  const std::string message = testing::error_of(ErrorKind::kInternal, [&] {
    llama.logits(at::zeros({1, 9}, at::kLong));
  });
  EXPECT_NE(message.find("9 positions in a model of 8"), std::string::npos) << message;
}

TEST(Llama, LossesOfTargetsAddUpToTheLoss) {
  for (const CompileMode mode : {CompileMode::kEager, CompileMode::kScript}) {
    LlamaCase golden("gqa_untied", at::kFloat);
    Llama llama(golden.config, golden.parameters, golden.max_length, mode);
    const at::Tensor ids = golden.tensor("input_ids");
    const at::Tensor targets = golden.tensor("labels").clone();
    targets[0][1].fill_(-100);
    const MicroBatch micro = micro_batch(ids, targets, 0.5);
    const at::Tensor losses = llama.target_losses(micro);
    ASSERT_EQ(losses.sizes(), targets.sizes());
    EXPECT_EQ(losses[0][1].item<float>(), 0.0F);
    const at::Tensor log_probabilities = at::log_softmax(llama.logits(ids), -1);
    const at::Tensor expected =
        -log_probabilities.gather(-1, targets.clamp_min(0).unsqueeze(-1)).squeeze(-1);
    EXPECT_TRUE(at::allclose(losses, expected.masked_fill(targets < 0, 0), 1e-5, 1e-5));
    const at::Tensor loss = llama.loss_and_gradient(micro, golden.new_gradient(), /*first=*/true);
    EXPECT_FLOAT_EQ(loss.item<float>(), 0.5F * losses.sum().item<float>());
  }
}

// cuDNN prepares every new length for about a second: worth it for the few of a training alone.
TEST(Llama, CudnnsAttentionIsNotTakenWhereNoGradientIsWanted) {
  ModelConfig config;
  config.hidden_size = 16;
  config.intermediate_size = 24;
  config.num_hidden_layers = config.num_attention_heads = config.num_key_value_heads = 2;
  Parameters parameters(ParameterLayout(config, 50), at::kFloat, at::kCPU);
  parameters.initialize(1, 0.1);
  Llama llama(config, parameters, 16, CompileMode::kScript);
  const at::Tensor ids = at::zeros({2, 16}, at::kLong);
  const MicroBatch micro = micro_batch(ids, ids, 1.0);
  const auto taken = [](const std::function<void()>& work) {
    std::vector<bool> allowed;
    const testing::OperatorCalls calls("lm::rope_attention",
                                       [&] { allowed.push_back(cudnn_attention_allowed()); });
    work();
    EXPECT_TRUE(cudnn_attention_allowed());
    return allowed;
  };
  const std::vector<bool> no(2, false), yes(2, true);
  EXPECT_EQ(taken([&] { llama.target_losses(micro); }), no);
  EXPECT_EQ(taken([&] { llama.logits(ids); }), no);
  const at::Tensor grad = at::zeros_like(parameters.master());
  EXPECT_EQ(taken([&] { llama.loss_and_gradient(micro, grad, true); }), yes);
}

}  // namespace
}  // namespace lmtrain
