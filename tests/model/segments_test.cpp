// Rows that hold several documents: each is computed as if it were alone.
#include <ATen/ops/full_like.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "base/support.h"
#include "model/llama.h"
#include "support/tensors.h"

namespace lmtrain {
namespace {

using testing::largest_difference;
using testing::random_integers;
using testing::same_bits;

constexpr int64_t kVocabulary = 97;
constexpr int64_t kLength = 24;

ModelConfig small_config() {
  ModelConfig config;
  config.hidden_size = 32;
  config.intermediate_size = 48;
  config.num_hidden_layers = 2;
  config.num_attention_heads = 4;
  config.num_key_value_heads = 2;
  config.tie_word_embeddings = false;  // the embedding's gradient is what reaches the inputs
  return config;
}

struct Model {
  explicit Model(at::ScalarType dtype = at::kFloat, CompileMode compile = CompileMode::kScript)
      : parameters(ParameterLayout(small_config(), kVocabulary), dtype, at::kCPU),
        llama(small_config(), initialized(), kLength, compile) {}

  double loss(const at::Tensor& ids, const at::Tensor& targets,
              const std::vector<int32_t>& segments = {}) {
    return llama.target_losses(micro_batch(ids, targets, 1.0, segments))
        .sum(at::kDouble)
        .item<double>();
  }
  std::pair<double, at::Tensor> step(const at::Tensor& ids, const at::Tensor& targets,
                                     const std::vector<int32_t>& segments = {}) {
    const at::Tensor gradient = at::zeros_like(parameters.master());
    const at::Tensor loss =
        llama.loss_and_gradient(micro_batch(ids, targets, 1.0, segments), gradient, /*first=*/true);
    return {loss.item<double>(), gradient};
  }
  at::Tensor embedding_part(const at::Tensor& gradient) const {
    const ParameterSpec& spec = parameters.layout().parameters().front();
    EXPECT_EQ(spec.name, "model.embed_tokens.weight");
    return gradient.narrow(0, spec.offset, spec.numel()).view(spec.shape);
  }

  const testing::Threads one_thread{1};
  Parameters parameters;
  Llama llama;

 private:
  Parameters& initialized() {
    parameters.initialize(/*seed=*/3, /*initializer_range=*/0.2);
    return parameters;
  }
};

// Two rows: documents of 5, 1, 10 and 8 targets, and of 24.
const std::vector<int32_t> kSegments = {0, 5, 6, 16, 24};
std::vector<std::pair<int64_t, int64_t>> ranges() {
  return {{0, 5}, {5, 6}, {6, 16}, {16, 24}, {24, 48}};
}

TEST(Segments, EveryTokenHasTheLossItHasInItsDocumentAlone) {
  for (const CompileMode compile : {CompileMode::kEager, CompileMode::kScript}) {
    Model model(at::kFloat, compile);
    const at::Tensor ids = random_integers(0, kVocabulary, {2, kLength}, 1);
    const at::Tensor targets = random_integers(0, kVocabulary, {2, kLength}, 2);
    double largest_without = 0;
    for (const auto& [begin, end] : ranges()) {
      const at::Tensor alone = ids.view({1, -1}).narrow(1, begin, end - begin);
      for (int64_t position = begin; position < end; ++position) {
        const at::Tensor one = at::full_like(targets, -100);
        one.view(-1)[position] = targets.view(-1)[position];
        const double expected = model.loss(alone, one.view({1, -1}).narrow(1, begin, end - begin));
        EXPECT_NEAR(model.loss(ids, one, kSegments), expected, 1e-5 * std::max(1.0, expected))
            << position;
        largest_without = std::max(largest_without, std::abs(model.loss(ids, one) - expected));
      }
    }
    EXPECT_GT(largest_without, 0.1);  // without segments the row is another thing
  }
}

TEST(Segments, GradientIsTheSumOfThoseOfTheDocumentsAlone) {
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16}) {
    Model model(dtype);
    const at::Tensor ids = random_integers(0, kVocabulary, {2, kLength}, 1);
    const at::Tensor targets = random_integers(0, kVocabulary, {2, kLength}, 2);
    const auto [loss, gradient] = model.step(ids, targets, kSegments);
    double sum = 0;
    at::Tensor sum_of_gradients = at::zeros_like(gradient);
    for (const auto& [begin, end] : ranges()) {
      const auto alone = model.step(ids.view({1, -1}).narrow(1, begin, end - begin),
                                    targets.view({1, -1}).narrow(1, begin, end - begin));
      sum += alone.first;
      sum_of_gradients += alone.second;
    }
    const double tolerance = dtype == at::kFloat ? 1e-5 : 4e-2;
    EXPECT_NEAR(loss, sum, tolerance * sum);
    EXPECT_LE(largest_difference(gradient, sum_of_gradients), tolerance);
    EXPECT_GT(largest_difference(model.step(ids, targets).second, sum_of_gradients), 0.1);
  }
}

// Each document has ids that no other has, so the gradient of a row of the embedding is what
// reached that document's tokens.
TEST(Segments, ADocumentHasNoInfluenceOnAnother) {
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16}) {
    Model model(dtype);
    const auto documents = ranges();
    const at::Tensor ids = at::empty({2, kLength}, at::kLong);
    for (size_t i = 0; i < documents.size(); ++i) {
      const auto [begin, end] = documents[i];
      const auto low = static_cast<int64_t>(i) * 16;
      ids.view(-1)
          .narrow(0, begin, end - begin)
          .copy_(random_integers(low, low + 16, {end - begin}, i));
    }
    const at::Tensor targets = random_integers(0, kVocabulary, {2, kLength}, 9);
    for (size_t i = 0; i < documents.size(); ++i) {
      const auto [begin, end] = documents[i];
      const at::Tensor own = at::full_like(targets, -100);
      own.view(-1)
          .narrow(0, begin, end - begin)
          .copy_(targets.view(-1).narrow(0, begin, end - begin));
      const auto reached = [&](const std::vector<int32_t>& segments, size_t other) {
        const at::Tensor gradient = model.embedding_part(model.step(ids, own, segments).second);
        return gradient.narrow(0, static_cast<int64_t>(other) * 16, 16).abs().max().item<double>();
      };
      for (size_t other = 0; other < documents.size(); ++other) {
        if (other == i) {
          EXPECT_GT(reached(kSegments, other), 1e-3);
        } else {
          EXPECT_EQ(reached(kSegments, other), 0) << i << " on " << other;
        }
      }
      // Without segments the document before it in its row is reached.
      if (i == 2 || i == 3) {
        EXPECT_GT(reached({}, i - 1), 1e-3);
      }
    }
  }
}

TEST(Segments, RowsAreWhatNoSegmentsMean) {
  Model model;
  const at::Tensor ids = random_integers(0, kVocabulary, {2, kLength}, 1);
  const at::Tensor targets = random_integers(0, kVocabulary, {2, kLength}, 2);
  const auto plain = model.step(ids, targets);
  const auto rows = model.step(ids, targets, {0, 24});
  EXPECT_NEAR(rows.first, plain.first, 1e-6 * plain.first);
  EXPECT_LE(largest_difference(rows.second, plain.second), 1e-5);
}

TEST(Segments, EagerAndScriptGiveTheSameBits) {
  const at::Tensor ids = random_integers(0, kVocabulary, {2, kLength}, 1);
  const at::Tensor targets = random_integers(0, kVocabulary, {2, kLength}, 2);
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16}) {
    Model eager(dtype, CompileMode::kEager), script(dtype, CompileMode::kScript);
    const auto a = eager.step(ids, targets, kSegments);
    const auto b = script.step(ids, targets, kSegments);
    EXPECT_EQ(a.first, b.first);
    EXPECT_TRUE(same_bits(a.second, b.second));
  }
}

TEST(Segments, ThoseThatAreNotInOrderAreRefused) {
  Model model;
  const at::Tensor ids = at::zeros({2, kLength}, at::kLong);
  const std::vector<std::vector<int32_t>> wrong = {
      {1, 24},        // the first position is in none
      {0, 25},        // the second row's first position is missing
      {0},            // likewise
      {0, 5, 5, 24},  // an empty one
      {0, 7, 6, 24},  // backwards
      {0, 24, 48},    // past the end
      {-1, 0, 24}};
  for (const auto& segments : wrong) {
    const std::string message =
        testing::error_of(ErrorKind::kInternal, [&] { model.loss(ids, ids, segments); });
    EXPECT_NE(message.find("segment"), std::string::npos) << message;
  }
}

// The number of segments decides the order of FlashAttention's sums, and the graph of a shape.
TEST(Segments, TheirNumberIsRoundedUpToAPowerOfTwoByEmptyOnes) {
  const at::Tensor ids = at::zeros({2, 8}, at::kLong);
  const auto bounds = [&](const std::vector<int32_t>& segments) {
    const at::Tensor made = micro_batch(ids, ids, 1.0, segments).bounds;
    return std::vector<int32_t>(made.data_ptr<int32_t>(), made.data_ptr<int32_t>() + made.numel());
  };
  EXPECT_EQ(bounds({0, 8}), (std::vector<int32_t>{0, 8, 16}));
  EXPECT_EQ(bounds({0, 3, 8}), (std::vector<int32_t>{0, 3, 8, 16, 16}));
  EXPECT_EQ(bounds({0, 3, 8, 9, 12}), (std::vector<int32_t>{0, 3, 8, 9, 12, 16, 16, 16, 16}));
}

}  // namespace
}  // namespace lmtrain
