#include "checkpoint/gguf_model.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <random>
#include <set>

#include "base/error.h"
#include "base/support.h"
#include "device/torch_headers.h"
#include "formats/gguf_reader.h"
#include "model/parameters.h"
#include "model/rope.h"
#include "support/models.h"

namespace lmtrain {
namespace {

using testing::error_of;
using testing::GgufReader;
using testing::two_layer_model;

ModelConfig scaled(ModelConfig model) {
  model.rope_theta = 500000;
  model.rope_scaling = RopeScalingConfig{RopeType::kLlama3, 8, 1, 4, 256};
  return model;
}

TEST(GgufModel, NamesAreThoseOfLlamaCpp) {
  const auto name = gguf_tensor_name;
  EXPECT_EQ(name("model.embed_tokens.weight"), "token_embd.weight");
  EXPECT_EQ(name("lm_head.weight"), "output.weight");
  EXPECT_EQ(name("model.norm.weight"), "output_norm.weight");
  EXPECT_EQ(name("model.layers.0.self_attn.q_proj.weight"), "blk.0.attn_q.weight");
  EXPECT_EQ(name("model.layers.31.self_attn.o_proj.weight"), "blk.31.attn_output.weight");
  EXPECT_EQ(name("model.layers.1.self_attn.k_norm.weight"), "blk.1.attn_k_norm.weight");
  EXPECT_EQ(name("model.layers.0.self_attn.q_proj.bias"), "blk.0.attn_q.bias");
  EXPECT_EQ(name("model.layers.2.self_attn.k_proj.bias"), "blk.2.attn_k.bias");
  EXPECT_EQ(name("model.layers.0.self_attn.v_proj.bias"), "blk.0.attn_v.bias");
  EXPECT_EQ(name("model.layers.1.post_attention_layernorm.weight"), "blk.1.ffn_norm.weight");
  EXPECT_EQ(name("model.layers.1.mlp.down_proj.weight"), "blk.1.ffn_down.weight");
  for (const char* other : {"model.layers.0.self_attn.o_proj.bias", "model.layers.0", "x", ""})
    error_of(ErrorKind::kInternal, [&] { gguf_tensor_name(other); });
}

TEST(GgufModel, EveryTensorHasANameOfItsOwn) {
  for (const auto type : {ModelArchitecture::kLlama, ModelArchitecture::kQwen3,
                          ModelArchitecture::kQwen2, ModelArchitecture::kMistral}) {
    ModelConfig model = two_layer_model();
    model.model_type = type;
    model.tie_word_embeddings = false;
    std::set<std::string> names;
    const ParameterLayout layout(model, 64);
    for (const ParameterSpec& spec : layout.parameters()) names.insert(gguf_tensor_name(spec.name));
    EXPECT_EQ(names.size(), layout.parameters().size());
    EXPECT_EQ(names.contains("blk.1.attn_q_norm.weight"), type == ModelArchitecture::kQwen3);
    EXPECT_EQ(names.contains("blk.1.attn_v.bias"), type == ModelArchitecture::kQwen2);
  }
}

// Turns the rows a and b of one column by an angle.
void turn(float& a, float& b, double angle) {
  const double cosine = std::cos(angle);
  const double sine = std::sin(angle);
  const double first = static_cast<double>(a) * cosine - static_cast<double>(b) * sine;
  b = static_cast<float>(static_cast<double>(a) * sine + static_cast<double>(b) * cosine);
  a = static_cast<float>(first);
}

TEST(GgufModel, RotatingNeighboursAfterIsRotatingHalvesBefore) {
  constexpr int64_t kHeads = 3;
  constexpr int64_t kHalf = 4;
  constexpr int64_t kColumns = 5;
  std::mt19937 random(2);
  std::normal_distribution<float> normal;
  std::vector<float> before(static_cast<size_t>(kHeads * 2 * kHalf * kColumns));
  for (float& value : before) value = normal(random);
  std::vector<float> after = with_paired_rows(before, kHeads, kColumns);
  EXPECT_NE(after, before);
  const auto at = [](std::vector<float>& values, int64_t head, int64_t row,
                     int64_t column) -> float& {
    return values[static_cast<size_t>((head * 2 * kHalf + row) * kColumns + column)];
  };
  for (int64_t head = 0; head < kHeads; ++head) {
    for (int64_t pair = 0; pair < kHalf; ++pair) {
      for (int64_t column = 0; column < kColumns; ++column) {
        const double angle = 0.1 + 0.7 * static_cast<double>(pair);
        turn(at(before, head, pair, column), at(before, head, pair + kHalf, column), angle);
        turn(at(after, head, 2 * pair, column), at(after, head, 2 * pair + 1, column), angle);
      }
    }
  }
  EXPECT_EQ(with_paired_rows(before, kHeads, kColumns), after);
}

TEST(GgufModel, OnlyQueriesAndKeysOfALlamaArePaired) {
  ModelConfig model = two_layer_model();
  EXPECT_EQ(paired_heads(model, "model.layers.0.self_attn.q_proj.weight"), 4);
  EXPECT_EQ(paired_heads(model, "model.layers.0.self_attn.k_proj.weight"), 2);
  EXPECT_EQ(paired_heads(model, "model.layers.0.self_attn.v_proj.weight"), 0);
  EXPECT_EQ(paired_heads(model, "model.embed_tokens.weight"), 0);
  model.model_type = ModelArchitecture::kQwen3;
  EXPECT_EQ(paired_heads(model, "model.layers.0.self_attn.q_proj.weight"), 0);
  EXPECT_EQ(paired_heads(model, "model.layers.0.self_attn.q_norm.weight"), 0);
  model.model_type = ModelArchitecture::kQwen2;
  EXPECT_EQ(paired_heads(model, "model.layers.0.self_attn.q_proj.weight"), 0);
  EXPECT_EQ(paired_heads(model, "model.layers.0.self_attn.q_proj.bias"), 0);
  model.model_type = ModelArchitecture::kMistral;
  EXPECT_EQ(paired_heads(model, "model.layers.0.self_attn.k_proj.weight"), 2);
}

// The frequencies divided by the factors are those of the model itself.
TEST(GgufModel, FactorsAreTheScalingOfPositions) {
  ModelConfig model = two_layer_model();
  EXPECT_TRUE(gguf_rope_factors(model).empty());
  const ModelConfig long_model = scaled(model);
  const std::vector<float> factors = gguf_rope_factors(long_model);
  const int64_t half = model.resolved_head_dim() / 2;
  ASSERT_EQ(static_cast<int64_t>(factors.size()), half);
  EXPECT_EQ(factors.front(), 1);
  EXPECT_EQ(factors.back(), 8);
  const at::Tensor cosines = rope_tables(long_model, 2, at::kCPU).first[1];
  bool is_between = false;
  for (int64_t i = 0; i < half; ++i) {
    const float factor = factors[static_cast<size_t>(i)];
    const double frequency =
        std::pow(long_model.rope_theta, -static_cast<double>(i) / static_cast<double>(half));
    EXPECT_NEAR(std::cos(frequency / static_cast<double>(factor)), cosines[i].item<double>(), 1e-6);
    is_between = is_between || (factor > 1 && factor < 8);
  }
  EXPECT_TRUE(is_between);
}

TEST(GgufModel, VectorsAreFp32AndOddRowsAreNotQuantized) {
  EXPECT_EQ(gguf_type_of({64}, GgufType::kQ80), GgufType::kF32);
  EXPECT_EQ(gguf_type_of({64}, GgufType::kBF16), GgufType::kF32);
  EXPECT_EQ(gguf_type_of({3, 64}, GgufType::kQ80), GgufType::kQ80);
  EXPECT_EQ(gguf_type_of({64, 48}, GgufType::kQ80), GgufType::kF16);
  EXPECT_EQ(gguf_type_of({64, 48}, GgufType::kBF16), GgufType::kBF16);
}

TEST(GgufModel, KeysDescribeTheModel) {
  const testing::TemporaryFolder folder;
  ModelConfig model = two_layer_model();
  model.head_dim = 48;
  model.model_type = ModelArchitecture::kQwen3;
  GgufMetadata metadata;
  CardConfig card;
  card.license = "mit";
  add_gguf_model(model, {"own", GgufType::kBF16, 1234567, 640, 256, card}, metadata);
  FileWriter writer(folder / "file");
  write_gguf(writer, metadata, {}, {});
  writer.finish();
  const std::string bytes = read_file(folder / "file");
  const GgufReader file(bytes);
  EXPECT_EQ(file.text_of("general.architecture"), "qwen3");
  EXPECT_EQ(file.text_of("general.name"), "own");
  EXPECT_EQ(file.text_of("general.size_label"), "1.2M");
  EXPECT_EQ(file.text_of("general.license"), "mit");
  const std::map<std::string, double> numbers = {
      {"general.file_type", 32},
      {"general.quantization_version", 2},
      {"general.alignment", 32},
      {"qwen3.block_count", 2},
      {"qwen3.context_length", 256},
      {"qwen3.embedding_length", 128},
      {"qwen3.feed_forward_length", 352},
      {"qwen3.attention.head_count", 4},
      {"qwen3.attention.head_count_kv", 2},
      {"qwen3.attention.key_length", 48},
      {"qwen3.attention.value_length", 48},
      {"qwen3.rope.dimension_count", 48},
      {"qwen3.vocab_size", 640},
      {"qwen3.attention.layer_norm_rms_epsilon", static_cast<double>(1e-5F)},
      {"qwen3.rope.freq_base", 10000}};
  for (const auto& [key, value] : numbers) EXPECT_EQ(file.number_of(key), value) << key;
  EXPECT_EQ(file.keys.size(), numbers.size() + 5);  // and general.type
}

// The file that has a model's keys and no tensors.
std::string keys_of(const ModelConfig& model) {
  const testing::TemporaryFolder folder;
  GgufMetadata metadata;
  add_gguf_model(model, {"a", GgufType::kF32, 1, 1, 1}, metadata);
  FileWriter writer(folder / "file");
  write_gguf(writer, metadata, {}, {});
  writer.finish();
  return read_file(folder / "file");
}

TEST(GgufModel, AQwenWithScaledPositionsIsRefused) {
  ModelConfig model = scaled(two_layer_model());
  keys_of(model);
  for (const auto& [type, name] : {std::pair(ModelArchitecture::kQwen3, "Qwen3"),
                                   std::pair(ModelArchitecture::kQwen2, "Qwen2")}) {
    model.model_type = type;
    const std::string message = error_of(ErrorKind::kConfig, [&] { keys_of(model); });
    EXPECT_NE(message.find(name), std::string::npos) << message;
  }
}

TEST(GgufModel, AMistralIsALlamaThere) {
  ModelConfig model = two_layer_model();
  model.model_type = ModelArchitecture::kMistral;
  const std::string bytes = keys_of(model);
  const GgufReader file(bytes);
  EXPECT_EQ(file.text_of("general.architecture"), "llama");
  EXPECT_EQ(file.number_of("llama.block_count"), 2);
}

TEST(GgufModel, LinearAndYarnAreKeys) {
  ModelConfig model = two_layer_model();
  model.model_type = ModelArchitecture::kQwen2;
  model.rope_scaling = RopeScalingConfig{.rope_type = RopeType::kLinear, .factor = 4};
  const std::string linear_bytes = keys_of(model);
  const GgufReader linear(linear_bytes);
  EXPECT_EQ(linear.text_of("qwen2.rope.scaling.type"), "linear");
  EXPECT_EQ(linear.number_of("qwen2.rope.scaling.factor"), 4);
  EXPECT_EQ(std::ranges::count(linear.keys, "qwen2.rope.scaling.original_context_length"), 0);
  EXPECT_TRUE(gguf_rope_factors(model).empty());
  model.rope_scaling->rope_type = RopeType::kYarn;
  const std::string yarn_bytes = keys_of(model);
  const GgufReader yarn(yarn_bytes);
  EXPECT_EQ(yarn.text_of("qwen2.rope.scaling.type"), "yarn");
  EXPECT_EQ(yarn.number_of("qwen2.rope.scaling.original_context_length"), 8192);
  EXPECT_TRUE(gguf_rope_factors(model).empty());
  model.rope_scaling->attention_factor = 2;
  const std::string message = error_of(ErrorKind::kConfig, [&] { keys_of(model); });
  EXPECT_NE(message.find("attention_factor"), std::string::npos) << message;
}

TEST(GgufModel, SizesHaveTwoDigits) {
  EXPECT_EQ(size_label(900), "0.9K");
  EXPECT_EQ(size_label(363'120), "363K");
  EXPECT_EQ(size_label(1'250'000'000), "1.2B");
  EXPECT_EQ(size_label(9'960'000), "10M");
  EXPECT_EQ(size_label(70'000'000'000), "70B");
}

}  // namespace
}  // namespace lmtrain
