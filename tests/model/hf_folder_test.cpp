#include "model/hf_folder.h"

#include <gtest/gtest.h>

#include "base/file.h"
#include "base/support.h"
#include "support/llama_case.h"

namespace lmtrain {
namespace {

using testing::error_of;
using testing::LlamaCase;
using testing::LoadedModel;
using testing::reference_folder;
using testing::same_bits;
using testing::TemporaryFolder;

// A model.safetensors made of whole tensors that can be altered before it is written.
struct Weights {
  std::map<std::string, at::Tensor> tensors;

  explicit Weights(const std::filesystem::path& folder) {
    const TensorFiles files(folder);
    for (const auto& [name, view] : files.tensors()) tensors[name] = testing::to_tensor(view);
  }

  void write(const std::filesystem::path& folder) const {
    const std::map<at::ScalarType, DType> dtypes = {{at::kFloat, DType::kF32},
                                                    {at::kHalf, DType::kF16},
                                                    {at::kBFloat16, DType::kBF16},
                                                    {at::kDouble, DType::kF64},
                                                    {at::kInt, DType::kI32}};
    std::vector<TensorToWrite> list;
    for (const auto& [name, tensor] : tensors) {
      list.push_back(
          {name, dtypes.at(tensor.scalar_type()), tensor.sizes().vec(), tensor.data_ptr()});
    }
    FileWriter writer(folder / kModelFile);
    write_safetensors(writer, list, {{"format", "pt"}});
    writer.finish();
  }
};

constexpr const char* kDown = "model.layers.1.mlp.down_proj.weight";

class HfFolderTest : public ::testing::Test {
 protected:
  std::string refusal(ErrorKind kind = ErrorKind::kData) {
    weights_.write(folder_.path());
    return error_of(kind, [&] { load_weights(TensorFiles(folder_.path()), target_); });
  }
  void load() {
    weights_.write(folder_.path());
    load_weights(TensorFiles(folder_.path()), target_);
  }
  void expect_names(const std::string& message, const std::string& what) const {
    EXPECT_NE(message.find(what), std::string::npos) << message;
    EXPECT_NE(message.find(folder_.path().string()), std::string::npos) << message;
  }

  LlamaCase golden_{"gqa_untied"};
  Weights weights_{golden_.folder};
  TemporaryFolder folder_;
  Parameters target_{golden_.parameters.layout(), at::kFloat, at::kCPU};
};

TEST_F(HfFolderTest, EveryTensorGoesToItsPlace) {
  load();
  EXPECT_TRUE(same_bits(target_.master(), golden_.parameters.master()));
  for (const ParameterSpec& spec : target_.layout().parameters()) {
    EXPECT_TRUE(same_bits(target_.master_view(spec), weights_.tensors.at(spec.name))) << spec.name;
  }
}

TEST_F(HfFolderTest, RefusesAMissingTensor) {
  weights_.tensors.erase(kDown);
  expect_names(refusal(), kDown);
}

TEST_F(HfFolderTest, RefusesAWrongShapeAndNamesBoth) {
  weights_.tensors[kDown] = weights_.tensors[kDown].t().contiguous();
  const std::string message = refusal();
  expect_names(message, kDown);
  EXPECT_NE(message.find("[36, 16]"), std::string::npos) << message;
  EXPECT_NE(message.find("[16, 36]"), std::string::npos) << message;
}

TEST_F(HfFolderTest, RefusesATensorThatIsNotOfTheModel) {
  weights_.tensors["model.layers.0.self_attn.q_proj.bias"] = at::zeros({16});
  expect_names(refusal(), "model.layers.0.self_attn.q_proj.bias");
}

TEST_F(HfFolderTest, RefusesAQwen2WithoutABias) {
  const LlamaCase qwen("qwen2_tied");
  Weights weights(qwen.folder);
  weights.tensors.erase("model.layers.1.self_attn.k_proj.bias");
  weights.write(folder_.path());
  Parameters target(qwen.parameters.layout(), at::kFloat, at::kCPU);
  expect_names(
      error_of(ErrorKind::kData, [&] { load_weights(TensorFiles(folder_.path()), target); }),
      "model.layers.1.self_attn.k_proj.bias");
}

TEST_F(HfFolderTest, RefusesALayerTooMany) {
  weights_.tensors["model.layers.2.input_layernorm.weight"] = at::zeros({16});
  expect_names(refusal(), "model.layers.2.input_layernorm.weight");
}

TEST_F(HfFolderTest, RefusesOtherDtypes) {
  weights_.tensors[kDown] = weights_.tensors[kDown].to(at::kDouble);
  const std::string message = refusal();
  expect_names(message, kDown);
  EXPECT_NE(message.find("F64"), std::string::npos) << message;
}

TEST_F(HfFolderTest, ReadsHalfPrecision) {
  for (const at::ScalarType dtype : {at::kHalf, at::kBFloat16}) {
    Weights rounded = weights_;
    for (auto& [name, tensor] : rounded.tensors) tensor = tensor.to(dtype);
    rounded.write(folder_.path());
    load_weights(TensorFiles(folder_.path()), target_);
    for (const ParameterSpec& spec : target_.layout().parameters()) {
      EXPECT_TRUE(same_bits(target_.master_view(spec),
                            weights_.tensors.at(spec.name).to(dtype).to(at::kFloat)))
          << spec.name;
    }
  }
}

TEST_F(HfFolderTest, PassesOverWhatOtherWritersDerive) {
  weights_.tensors["model.layers.0.self_attn.rotary_emb.inv_freq"] = at::zeros({2});
  load();
  EXPECT_TRUE(same_bits(target_.master(), golden_.parameters.master()));
}

TEST_F(HfFolderTest, ATiedHeadMayBeStoredAgainAnUntiedOneMustBe) {
  LlamaCase tied("mha_tied");
  Weights weights(tied.folder);
  weights.tensors["lm_head.weight"] = weights.tensors.at("model.embed_tokens.weight");
  weights.write(folder_.path());
  Parameters target(tied.parameters.layout(), at::kFloat, at::kCPU);
  load_weights(TensorFiles(folder_.path()), target);
  EXPECT_TRUE(same_bits(target.master(), tied.parameters.master()));

  weights_.tensors.erase("lm_head.weight");
  expect_names(refusal(), "lm_head.weight");
}

// transformers 4 ignores the head, transformers 5 uses it.
TEST_F(HfFolderTest, ATiedHeadWithOtherValuesIsRefused) {
  for (const char* name : {"mha_tied", "mqa_tied"}) {
    LlamaCase tied(name);
    const at::Tensor embedding = Weights(tied.folder).tensors.at("model.embed_tokens.weight");
    at::Tensor other = embedding.clone();
    other[1][2] += 1;
    for (const at::Tensor& head :
         {other, embedding.slice(0, 1).contiguous(), other.to(at::kBFloat16)}) {
      Weights weights(tied.folder);
      weights.tensors["lm_head.weight"] = head;
      weights.write(folder_.path());
      Parameters target(tied.parameters.layout(), at::kFloat, at::kCPU);
      expect_names(
          error_of(ErrorKind::kData, [&] { load_weights(TensorFiles(folder_.path()), target); }),
          "tie_word_embeddings is true");
    }
  }
}

TEST_F(HfFolderTest, ATiedHeadOfAnotherDtypeWithTheSameValuesIsTied) {
  LlamaCase tied("mha_tied");
  Weights weights(tied.folder);
  at::Tensor& embedding = weights.tensors.at("model.embed_tokens.weight");
  embedding = embedding.to(at::kBFloat16);
  weights.tensors["lm_head.weight"] = embedding.to(at::kFloat);
  weights.write(folder_.path());
  Parameters target(tied.parameters.layout(), at::kFloat, at::kCPU);
  load_weights(TensorFiles(folder_.path()), target);
}

// As transformers 5 does.
TEST_F(HfFolderTest, ATiedEmbeddingMayBeStoredAsTheHeadAlone) {
  LlamaCase tied("mha_tied");
  Weights weights(tied.folder);
  weights.tensors["lm_head.weight"] = weights.tensors.at("model.embed_tokens.weight");
  weights.tensors.erase("model.embed_tokens.weight");
  weights.write(folder_.path());
  Parameters target(tied.parameters.layout(), at::kFloat, at::kCPU);
  load_weights(TensorFiles(folder_.path()), target);
  EXPECT_TRUE(same_bits(target.master(), tied.parameters.master()));
  weights_.tensors.erase("model.embed_tokens.weight");  // untied, both are needed
  expect_names(refusal(), "model.embed_tokens.weight");
}

TEST_F(HfFolderTest, RefreshesTheWorkingWeights) {
  weights_.write(folder_.path());
  Parameters bf16(golden_.parameters.layout(), at::kBFloat16, at::kCPU);
  load_weights(TensorFiles(folder_.path()), bf16);
  EXPECT_TRUE(same_bits(bf16.working(), golden_.parameters.master().to(at::kBFloat16)));
}

TEST_F(HfFolderTest, WritesWhatItReads) {
  for (const char* name : {"gqa_untied", "mqa_tied"}) {
    LlamaCase golden(name);
    const Parameters& parameters = golden.parameters;
    FileWriter writer(folder_ / kModelFile);
    write_safetensors(writer, hf_tensors(parameters.layout(), parameters.master()),
                      {{"format", "pt"}});
    writer.finish();
    const TensorFiles written(folder_.path());
    const TensorFiles original(golden.folder);
    ASSERT_EQ(written.tensors().size(), original.tensors().size());
    for (const auto& [tensor, view] : original.tensors()) {
      EXPECT_EQ(written.at(tensor).dtype, view.dtype);
      EXPECT_EQ(written.at(tensor).shape, view.shape);
      EXPECT_EQ(written.at(tensor).bytes, view.bytes) << tensor;
    }
  }
}

TEST(HfFolder, ShardsInBf16HoldTheSameValues) {
  const LoadedModel whole(reference_folder("eval/hf"));
  const LoadedModel sharded(reference_folder("eval/hf_sharded"));
  EXPECT_GT(whole.parameters.master().abs().max().item<float>(), 0.0F);
  EXPECT_TRUE(same_bits(whole.parameters.master(), sharded.parameters.master()));
}

}  // namespace
}  // namespace lmtrain
