#include "model/parameters.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <set>

#include "config/model_family.h"
#include "support/llama_case.h"

namespace lmtrain {
namespace {

using testing::LlamaCase;
using testing::part;
using testing::same_bits;
using testing::Threads;

ModelConfig small_model() {
  ModelConfig model;
  model.hidden_size = 24;
  model.intermediate_size = 37;
  model.num_hidden_layers = 3;
  model.num_attention_heads = 6;
  model.num_key_value_heads = 2;
  model.tie_word_embeddings = false;
  return model;
}

Parameters initialized(const ModelConfig& model, int64_t vocab_size, int64_t seed) {
  Parameters parameters(ParameterLayout(model, vocab_size), at::kFloat, at::kCPU);
  parameters.initialize(seed, model.initializer_range);
  return parameters;
}

const ParameterSpec& spec_of(const ParameterLayout& layout, const std::string& name) {
  for (const ParameterSpec& spec : layout.parameters()) {
    if (spec.name == name) return spec;
  }
  ADD_FAILURE() << name;
  return layout.parameters().front();
}

at::Tensor master_of(const Parameters& parameters, const std::string& name) {
  return parameters.master_view(spec_of(parameters.layout(), name));
}

TEST(ParameterLayout, HoldsTheTensorsOfTransformersOnce) {
  for (const std::string& name : testing::llama_cases()) {
    const LlamaCase golden(name);
    const TensorFiles files(golden.folder);
    const ParameterLayout& layout = golden.parameters.layout();
    EXPECT_EQ(layout.parameters().size(), files.tensors().size()) << name;
    int64_t total = 0;
    for (const ParameterSpec& spec : layout.parameters()) {
      ASSERT_TRUE(files.contains(spec.name)) << name << " " << spec.name;
      EXPECT_EQ(files.at(spec.name).shape, spec.shape) << name << " " << spec.name;
      total += spec.numel();
    }
    EXPECT_EQ(layout.num_parameters(), total);
  }
}

TEST(ParameterLayout, RangesAreApartAndMatricesAligned) {
  const ParameterLayout layout(small_model(), 101);
  std::map<int64_t, int64_t> end_of;  // by offset
  for (const ParameterSpec& spec : layout.parameters()) {
    EXPECT_TRUE(end_of.emplace(spec.offset, spec.offset + spec.numel()).second) << spec.name;
  }
  int64_t end = 0;
  for (const auto& [offset, its_end] : end_of) {
    EXPECT_GE(offset, end);
    end = its_end;
  }
  EXPECT_LE(end, layout.flat_size());
  for (const WorkingSpec& spec : layout.working()) EXPECT_EQ(spec.offset % 64, 0) << spec.key;
}

TEST(ParameterLayout, DecayCoversMatricesAndEmbeddingsAndNoNorm) {
  const ParameterLayout layout(small_model(), 101);
  int norms = 0;
  for (const ParameterSpec& spec : layout.parameters()) {
    if (spec.shape.size() >= 2) {
      EXPECT_LE(spec.offset + spec.numel(), layout.decayed_size()) << spec.name;
    } else {
      EXPECT_GE(spec.offset, layout.decayed_size()) << spec.name;
      ++norms;
    }
  }
  EXPECT_EQ(norms, 2 * 3 + 1);
}

TEST(ParameterLayout, AQwen2HasThreeBiasesMoreInALayer) {
  ModelConfig model = small_model();
  const ParameterLayout llama(model, 101);
  model.model_type = ModelArchitecture::kQwen2;
  const Parameters parameters = initialized(model, 101, 1);
  const ParameterLayout& layout = parameters.layout();
  for (int layer = 0; layer < 3; ++layer) {
    int64_t next = -1;
    for (const char* key : {"q_proj", "k_proj", "v_proj"}) {
      const ParameterSpec& spec =
          spec_of(layout, "model.layers." + std::to_string(layer) + ".self_attn." + key + ".bias");
      EXPECT_EQ(spec.shape, std::vector<int64_t>{key[0] == 'q' ? 24 : 8});
      EXPECT_GE(spec.offset, layout.decayed_size());
      EXPECT_TRUE(next < 0 || spec.offset == next) << "the three are one vector";
      next = spec.offset + spec.numel();
      EXPECT_TRUE(parameters.master_view(spec).eq(0).all().item<bool>());
    }
  }
  EXPECT_EQ(layout.num_parameters(), llama.num_parameters() + 3 * (24 + 8 + 8));
  EXPECT_EQ(layout.decayed_size(), llama.decayed_size());
  const double counted = count_parameters(model, 101);
  EXPECT_EQ(counted, static_cast<double>(layout.num_parameters()));
}

TEST(ParameterLayout, AQwen3HasTwoNormsMoreInALayer) {
  ModelConfig model = small_model();
  const ParameterLayout llama(model, 101);
  model.model_type = ModelArchitecture::kQwen3;
  model.head_dim = 8;
  const Parameters parameters = initialized(model, 101, 1);
  for (int layer = 0; layer < 3; ++layer) {
    for (const char* key : {"q_norm", "k_norm"}) {
      const ParameterSpec& spec =
          spec_of(parameters.layout(),
                  "model.layers." + std::to_string(layer) + ".self_attn." + key + ".weight");
      EXPECT_EQ(spec.shape, std::vector<int64_t>{8});
      EXPECT_GE(spec.offset, parameters.layout().decayed_size());
      EXPECT_TRUE(parameters.master_view(spec).eq(1).all().item<bool>());
    }
  }
  model.model_type = ModelArchitecture::kLlama;
  EXPECT_EQ(parameters.layout().num_parameters(),
            ParameterLayout(model, 101).num_parameters() + 3 * 2 * 8);
  EXPECT_EQ(llama.parameters().size() + 6, parameters.layout().parameters().size());
}

TEST(ParameterLayout, WorkingMatricesAreTheStackedTensors) {
  const std::map<std::string, std::vector<std::string>> parts = {
      {"qkv_proj", {"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"}},
      {"o_proj", {"self_attn.o_proj"}},
      {"gate_up_proj", {"mlp.gate_proj", "mlp.up_proj"}},
      {"down_proj", {"mlp.down_proj"}},
      {"input_layernorm", {"input_layernorm"}},
      {"post_attention_layernorm", {"post_attention_layernorm"}},
      {"embed_tokens", {"model.embed_tokens"}},
      {"lm_head", {"lm_head"}},
      {"norm", {"model.norm"}}};
  for (const bool tied : {false, true}) {
    ModelConfig model = small_model();
    model.tie_word_embeddings = tied;
    const Parameters parameters = initialized(model, 101, 1);
    std::set<std::string> seen;
    for (const WorkingSpec& spec : parameters.layout().working()) {
      std::vector<at::Tensor> stacked;
      for (std::string name : parts.at(spec.key)) {
        if (spec.layer >= 0) name = "model.layers." + std::to_string(spec.layer) + "." + name;
        if (tied && name == "lm_head") name = "model.embed_tokens";
        stacked.push_back(master_of(parameters, name + ".weight"));
        seen.insert(name);
      }
      const at::Tensor expected = at::cat(stacked);
      ASSERT_EQ(expected.sizes(), at::IntArrayRef(spec.shape)) << spec.key;
      const at::Tensor merged =
          parameters.working().narrow(0, spec.offset, expected.numel()).view(spec.shape);
      EXPECT_TRUE(same_bits(merged, expected)) << spec.layer << " " << spec.key;
    }
    EXPECT_EQ(seen.size(), parameters.layout().parameters().size());  // every tensor is used
  }
}

// 6 N + 12 L D T by hand for a model small enough to count.
TEST(ParameterLayout, CountsParametersAndFlops) {
  ModelConfig model = small_model();
  model.head_dim = 10;  // heads x head size is not hidden_size
  const ParameterLayout untied(model, 101);
  const int64_t layer = 24 * (60 + 20 + 20) + 60 * 24 + 3 * 24 * 37 + 2 * 24;
  EXPECT_EQ(untied.num_parameters(), 2 * 101 * 24 + 3 * layer + 24);
  model.tie_word_embeddings = true;
  const ParameterLayout tied(model, 101);
  EXPECT_EQ(tied.num_parameters(), 101 * 24 + 3 * layer + 24);
  EXPECT_DOUBLE_EQ(tied.flops_per_token(128),
                   6.0 * static_cast<double>(101 * 24 + 3 * layer + 24) + 12.0 * 3 * 60 * 128);
}

TEST(Parameters, InitialValuesAreAFunctionOfSeedNameAndIndexAlone) {
  const Parameters base = initialized(small_model(), 101, 7);
  EXPECT_TRUE(same_bits(base.master(), initialized(small_model(), 101, 7).master()));
  {
    const Threads one(1);
    EXPECT_TRUE(same_bits(base.master(), initialized(small_model(), 101, 7).master()));
  }
  // Another model: other depth, tied, more tokens. Tensors of one name and width begin alike.
  ModelConfig other = small_model();
  other.num_hidden_layers = 1;
  other.tie_word_embeddings = true;
  const Parameters changed = initialized(other, 151, 7);
  for (const ParameterSpec& spec : changed.layout().parameters()) {
    const at::Tensor mine = changed.master_view(spec).flatten();
    const at::Tensor theirs = master_of(base, spec.name).flatten();
    const int64_t common = std::min(mine.numel(), theirs.numel());
    EXPECT_TRUE(same_bits(mine.narrow(0, 0, common), theirs.narrow(0, 0, common))) << spec.name;
  }
  // Every matrix has values of its own, and another seed gives others.
  const Parameters reseeded = initialized(small_model(), 101, 8);
  std::set<float> first_values;
  size_t matrices = 0;
  for (const ParameterSpec& spec : base.layout().parameters()) {
    if (spec.shape.size() < 2) continue;
    ++matrices;
    for (const Parameters* parameters : {&base, &reseeded}) {
      first_values.insert(parameters->master_view(spec).flatten()[0].item<float>());
    }
  }
  EXPECT_EQ(first_values.size(), 2 * matrices);
}

TEST(Parameters, InitialValuesAreNormalAndNormsOne) {
  ModelConfig model = small_model();
  model.hidden_size = 192;
  model.intermediate_size = 512;
  model.initializer_range = 0.05;
  const Parameters parameters = initialized(model, 1001, 3);
  for (const ParameterSpec& spec : parameters.layout().parameters()) {
    const at::Tensor values = parameters.master_view(spec).to(at::kDouble).flatten();
    if (spec.shape.size() == 1) {
      EXPECT_TRUE((values == 1).all().item<bool>()) << spec.name;
      continue;
    }
    const at::Tensor z = values / 0.05;
    const double root = std::sqrt(static_cast<double>(z.numel()));
    EXPECT_LE(std::abs(z.mean().item<double>()), 4.5 / root) << spec.name;
    EXPECT_NEAR(z.square().mean().item<double>(), 1.0, 4.5 * std::sqrt(2.0) / root) << spec.name;
    EXPECT_NEAR(z.pow(4).mean().item<double>(), 3.0, 4.5 * std::sqrt(96.0) / root) << spec.name;
    EXPECT_NEAR((z.abs() < 0.6745).to(at::kDouble).mean().item<double>(), 0.5, 2.5 / root);
  }
}

TEST(Parameters, ZeroOutputsAreZeroAndAllElseIsAsWithNormal) {
  const Parameters normal = initialized(small_model(), 101, 7);
  Parameters parameters(ParameterLayout(small_model(), 101), at::kBFloat16, at::kCPU);
  parameters.initialize(7, small_model().initializer_range, Initializer::kZeroOutputs);
  int outputs = 0;
  for (const ParameterSpec& spec : parameters.layout().parameters()) {
    const at::Tensor values = parameters.master_view(spec);
    if (spec.name.ends_with("o_proj.weight") || spec.name.ends_with("down_proj.weight")) {
      EXPECT_TRUE((values == 0).all().item<bool>()) << spec.name;
      ++outputs;
    } else {
      EXPECT_TRUE(same_bits(values, master_of(normal, spec.name))) << spec.name;
    }
  }
  EXPECT_EQ(outputs, 2 * 3);
  EXPECT_TRUE(same_bits(parameters.working(), parameters.master().to(at::kBFloat16)));
}

// Masters that are not fp32 in host memory are made part by part, 2^24 elements at once.
TEST(Parameters, WeightsThatAreMadeInPartsAreThoseMadeWhole) {
  ModelConfig model;
  model.hidden_size = 8;
  model.intermediate_size = 8;
  model.num_hidden_layers = 1;
  model.num_attention_heads = 1;
  model.num_key_value_heads = 1;
  constexpr int64_t kVocabulary = (int64_t{1} << 21) + 1000;
  Parameters in_double(ParameterLayout(model, kVocabulary), at::kDouble, at::kCPU);
  in_double.initialize(7, 0.02);
  const Parameters whole = initialized(model, kVocabulary, 7);
  EXPECT_TRUE(same_bits(in_double.master().to(at::kFloat), whole.master()));
}

TEST(Parameters, GapsStayZero) {
  const Parameters parameters = initialized(small_model(), 101, 7);
  at::Tensor rest = parameters.master().clone();
  for (const ParameterSpec& spec : parameters.layout().parameters()) part(rest, spec).zero_();
  EXPECT_GT(parameters.layout().flat_size(), parameters.layout().num_parameters());
  EXPECT_TRUE((rest == 0).all().item<bool>());
}

TEST(Parameters, WorkingWeightsAreTheRoundedMasters) {
  Parameters fp32(ParameterLayout(small_model(), 101), at::kFloat, at::kCPU);
  EXPECT_EQ(fp32.working().data_ptr(), fp32.master().data_ptr());
  Parameters bf16(ParameterLayout(small_model(), 101), at::kBFloat16, at::kCPU);
  bf16.initialize(7, 0.02);
  EXPECT_TRUE(same_bits(bf16.working(), bf16.master().to(at::kBFloat16)));
  EXPECT_TRUE(same_bits(bf16.master(), initialized(small_model(), 101, 7).master()));
}

TEST(Parameters, TheFirstTensorThatIsNotFiniteIsNamed) {
  const Parameters parameters = initialized(small_model(), 101, 7);
  const ParameterLayout& layout = parameters.layout();
  const at::Tensor flat = at::zeros({layout.flat_size()});
  EXPECT_EQ(first_bad_tensor(layout, flat), "");
  for (const double bad : {static_cast<double>(NAN), HUGE_VAL, -HUGE_VAL}) {
    for (const size_t i : {layout.parameters().size() - 1, size_t{3}, size_t{0}}) {
      const ParameterSpec& spec = layout.parameters()[i];
      flat[spec.offset + spec.numel() - 1] = bad;  // its last number, beside the ones after it
      EXPECT_EQ(first_bad_tensor(layout, flat), spec.name);
      const auto others = [&](const ParameterSpec& other) { return other.name != spec.name; };
      EXPECT_NE(first_bad_tensor(layout, flat, others), spec.name);
    }
    flat.zero_();
  }
}

}  // namespace
}  // namespace lmtrain
