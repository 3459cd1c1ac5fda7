#include "config/model_family.h"

#include <gtest/gtest.h>

namespace lmtrain {
namespace {

ModelConfig of_size(double parameters, int64_t vocab_size, bool tied) {
  ModelConfig model;
  model.tie_word_embeddings = tied;
  set_size(model, vocab_size, parameters);
  return model;
}

// The presets are members: GPT-2 small, TinyLlama, Llama 2 7B.
TEST(ModelFamily, NamedSizesAreTheShapesOfThePresets) {
  const ModelConfig small = of_size(124e6, 50304, /*tied=*/true);
  EXPECT_EQ(small.hidden_size, 768);
  EXPECT_EQ(small.num_hidden_layers, 12);
  EXPECT_NEAR(count_parameters(small, 50304), 124e6, 1e6);
  const ModelConfig tiny_llama = of_size(1.1e9, 32000, /*tied=*/false);
  EXPECT_EQ(tiny_llama.hidden_size, 2048);
  EXPECT_EQ(tiny_llama.num_key_value_heads, 4);
  EXPECT_NEAR(count_parameters(tiny_llama, 32000), 1.1e9, 5e6);
  EXPECT_NEAR(count_parameters(of_size(6.7e9, 32000, /*tied=*/false), 32000), 6.74e9, 1e7);
}

TEST(ModelFamily, EverySizeIsWithinItsNeighbours) {
  for (double wanted = 0.3e6; wanted < 7e9; wanted *= 1.3) {
    const ModelConfig model = of_size(wanted, 8192, /*tied=*/false);
    EXPECT_EQ(model.hidden_size % model.num_attention_heads, 0);
    EXPECT_EQ(model.num_attention_heads % model.num_key_value_heads, 0);
    EXPECT_EQ(model.resolved_head_dim() % 2, 0);
    const double ratio = count_parameters(model, 8192) / wanted;
    EXPECT_GT(ratio, 0.5) << wanted;
    EXPECT_LT(ratio, 2) << wanted;
  }
}

TEST(ModelFamily, AHeadIsMultipliedAndAnEmbeddingIsNot) {
  ModelConfig model;
  for (const bool tied : {true, false}) {
    model.tie_word_embeddings = tied;
    const double embedding = 1000.0 * static_cast<double>(model.hidden_size);
    EXPECT_EQ(count_parameters(model, 1000) - count_multiplied(model, 1000), tied ? 0 : embedding);
  }
  set_multiplied(model, 8192, 1e6);
  const double small = count_multiplied(model, 8192);
  set_multiplied(model, 8192, 1e9);
  EXPECT_GT(count_multiplied(model, 8192), 100 * small);
}

}  // namespace
}  // namespace lmtrain
