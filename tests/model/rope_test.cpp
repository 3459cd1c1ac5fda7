#include "model/rope.h"

#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "config/parse.h"
#include "support/source_dir.h"
#include "support/tensors.h"

namespace lmtrain {
namespace {

// theta_r by the papers' formulas, in double.
std::vector<double> frequencies(const ModelConfig& model) {
  const auto size = static_cast<double>(model.resolved_head_dim());
  std::vector<double> result;
  for (int64_t r = 0; r < model.resolved_head_dim() / 2; ++r) {
    double frequency = std::pow(model.rope_theta, -2.0 * static_cast<double>(r) / size);
    if (model.rope_scaling && model.rope_scaling->rope_type == RopeType::kLlama3) {
      const RopeScalingConfig& scaling = *model.rope_scaling;
      const double turns = static_cast<double>(scaling.original_max_position_embeddings) *
                           frequency / (2 * std::acos(-1.0));
      const double smooth = std::clamp(
          (turns - scaling.low_freq_factor) / (scaling.high_freq_factor - scaling.low_freq_factor),
          0.0, 1.0);
      frequency = (1 - smooth) * frequency / scaling.factor + smooth * frequency;
    }
    result.push_back(frequency);
  }
  return result;
}

void expect_tables(const ModelConfig& model, int64_t length) {
  const auto [cos, sin] = rope_tables(model, length, at::kCPU);
  const int64_t half = model.resolved_head_dim() / 2;
  ASSERT_EQ(cos.sizes(), at::IntArrayRef({length, half}));
  ASSERT_EQ(sin.sizes(), at::IntArrayRef({length, half}));
  EXPECT_EQ(cos.scalar_type(), at::kFloat);
  const std::vector<double> frequency = frequencies(model);
  for (int64_t t = 0; t < length; ++t) {
    for (int64_t r = 0; r < half; ++r) {
      const double angle = static_cast<double>(t) * frequency[static_cast<size_t>(r)];
      const double tolerance = 1e-6 + 2e-7 * angle;  // of an fp32 angle
      EXPECT_NEAR(cos[t][r].item<double>(), std::cos(angle), tolerance) << t << " " << r;
      EXPECT_NEAR(sin[t][r].item<double>(), std::sin(angle), tolerance) << t << " " << r;
    }
  }
}

TEST(RopeTables, AreTheAnglesOfThePaper) {
  ModelConfig model;
  model.hidden_size = 64;
  expect_tables(model, 65);
  model.head_dim = 10;
  model.rope_theta = 500000.0;
  expect_tables(model, 33);
  expect_tables(model, 1);
}

TEST(RopeTables, Llama3ScalingKeepsFastAndStretchesSlowFrequencies) {
  ModelConfig model;
  model.head_dim = 16;
  model.rope_theta = 10000.0;
  const std::vector<double> plain = frequencies(model);
  model.rope_scaling = RopeScalingConfig{RopeType::kLlama3, 8.0, 1.0, 4.0, 256};
  const std::vector<double> scaled = frequencies(model);
  int kept = 0, stretched = 0, between = 0;
  for (size_t r = 0; r < plain.size(); ++r) {
    const double ratio = scaled[r] / plain[r];
    ++(ratio > 1 - 1e-12 ? kept : ratio < 0.125 + 1e-12 ? stretched : between);
  }
  EXPECT_GT(kept, 0);
  EXPECT_GT(stretched, 0);
  EXPECT_GT(between, 0);
  expect_tables(model, 70);
}

TEST(RopeTables, TypeDefaultScalesNothing) {
  ModelConfig model;
  const auto plain = rope_tables(model, 9, at::kCPU);
  model.rope_scaling = RopeScalingConfig{};
  EXPECT_TRUE(testing::same_bits(rope_tables(model, 9, at::kCPU).first, plain.first));
}

// Frequencies and factors of transformers' own functions, in the keys of both its versions.
TEST(RopeTables, AreThoseOfTransformersForEveryType) {
  const auto golden =
      nlohmann::json::parse(read_file(testing::source_dir() / "tests/reference/rope/rope.json"));
  size_t with_factor = 0;
  for (const nlohmann::json& one : golden["cases"]) {
    SCOPED_TRACE(one["rope_parameters"].dump());
    nlohmann::json config = {{"model_type", "qwen2"}, {"head_dim", golden["head_dim"]}};
    const nlohmann::json& rope = one["rope_parameters"];
    nlohmann::json old = config;
    config["rope_parameters"] = rope;
    old["rope_theta"] = rope["rope_theta"];
    old["rope_scaling"] = rope;
    old["rope_scaling"].erase("rope_theta");
    const ModelConfig model = parse_hf_model_config(config.dump(), "config.json");
    EXPECT_EQ(parse_hf_model_config(old.dump(), "config.json"), model);
    constexpr int64_t kLength = 200;
    const auto [cos, sin] = rope_tables(model, kLength, at::kCPU);
    const auto frequencies = one["inverse_frequencies"].get<std::vector<double>>();
    const auto factor = one["factor"].get<double>();
    with_factor += factor == 1 ? 0 : 1;
    ASSERT_EQ(cos.size(1), static_cast<int64_t>(frequencies.size()));
    for (int64_t t = 0; t < kLength; ++t) {
      for (int64_t r = 0; r < cos.size(1); ++r) {
        const double angle = static_cast<double>(t) * frequencies[static_cast<size_t>(r)];
        const double tolerance = 1e-6 + 2e-7 * angle;
        ASSERT_NEAR(cos[t][r].item<double>(), factor * std::cos(angle), tolerance) << t << " " << r;
        ASSERT_NEAR(sin[t][r].item<double>(), factor * std::sin(angle), tolerance) << t << " " << r;
      }
    }
  }
  EXPECT_GE(with_factor, 5U);
}

}  // namespace
}  // namespace lmtrain
