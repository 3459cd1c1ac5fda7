#include "model/torchscript.h"

#include <gtest/gtest.h>
#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/serialization/import.h>

#include <functional>
#include <set>

#include "base/support.h"
#include "support/llama_case.h"

namespace lmtrain {
namespace {

using testing::largest_difference;
using testing::LlamaCase;
using testing::TemporaryFolder;

torch::jit::Module exported(const LlamaCase& model, const TemporaryFolder& folder,
                            DType dtype = DType::kF32) {
  const std::filesystem::path file = folder / "model.pt";
  write_torchscript(file, model.config, model.parameters, model.max_length, dtype);
  return torch::jit::load(file.string());
}

at::Tensor logits_of(torch::jit::Module& module, const at::Tensor& ids) {
  const at::NoGradGuard no_grad;
  return module.forward({ids}).toTensor();
}

TEST(TorchScript, LogitsAreThoseOfTheModel) {
  for (const std::string& name : testing::llama_cases()) {
    LlamaCase golden(name);
    const TemporaryFolder folder;
    torch::jit::Module module = exported(golden, folder);
    const at::Tensor logits = logits_of(module, golden.tensor("input_ids"));
    EXPECT_EQ(logits.scalar_type(), at::kFloat);
    EXPECT_LE(largest_difference(logits, golden.tensor("logits")), 2e-6) << name;
    // Rows of any number and length.
    Llama llama = golden.llama(CompileMode::kScript);
    for (const int64_t length : {int64_t{1}, golden.max_length}) {
      const at::Tensor ids = testing::random_integers(0, *golden.config.vocab_size, {2, length}, 5);
      EXPECT_LE(largest_difference(logits_of(module, ids), llama.logits(ids)), 2e-6) << name;
    }
  }
}

TEST(TorchScript, SixteenBitsAreThoseOfTheModelInSixteenBits) {
  for (const auto& [dtype, type] :
       {std::pair{DType::kBF16, at::kBFloat16}, std::pair{DType::kF16, at::kHalf}}) {
    LlamaCase golden("gqa_untied", type);
    const TemporaryFolder folder;
    torch::jit::Module module = exported(golden, folder, dtype);
    const at::Tensor ids = golden.tensor("input_ids");
    const at::Tensor logits = logits_of(module, ids);
    EXPECT_EQ(logits.scalar_type(), at::kFloat);
    EXPECT_LE(largest_difference(logits, golden.llama(CompileMode::kScript).logits(ids)), 5e-2);
    for (const auto& parameter : module.named_parameters())
      EXPECT_EQ(parameter.value.scalar_type(), type) << parameter.name;
  }
}

// Who opens the file has no operators of ours.
TEST(TorchScript, HasOperatorsOfAtenAlone) {
  LlamaCase golden("rope_llama3");
  const TemporaryFolder folder;
  torch::jit::Module module = exported(golden, folder);
  const auto graph = module.get_method("forward").graph();
  size_t operators = 0;
  const std::function<void(torch::jit::Block*)> visit = [&](torch::jit::Block* block) {
    for (torch::jit::Node* node : block->nodes()) {
      const std::string name = node->kind().toQualString();
      EXPECT_TRUE(name.starts_with("aten::") || name.starts_with("prim::")) << name;
      EXPECT_NE(name, "prim::CallFunction");
      ++operators;
      for (torch::jit::Block* inner : node->blocks()) visit(inner);
    }
  };
  visit(graph->block());
  EXPECT_GT(operators, 40U);
}

TEST(TorchScript, ItsParametersAreTheModels) {
  LlamaCase tied("mqa_tied"), untied("gqa_untied");
  const TemporaryFolder folder;
  const auto names = [](const torch::jit::Module& module) {
    std::set<std::string> all;
    int64_t numbers = 0;
    for (const auto& parameter : module.named_parameters()) {
      all.insert(parameter.name);
      numbers += parameter.value.numel();
      EXPECT_EQ(parameter.value.storage().nbytes(), parameter.value.nbytes());
    }
    return std::pair(all, numbers);
  };
  const auto [of_tied, numbers] = names(exported(tied, folder));
  EXPECT_FALSE(of_tied.contains("lm_head"));
  EXPECT_TRUE(of_tied.contains("layers.1.qkv_proj"));
  EXPECT_EQ(numbers, tied.parameters.layout().num_parameters());
  EXPECT_TRUE(names(exported(untied, folder)).first.contains("lm_head"));
}

TEST(TorchScript, ARowThatIsTooLongSaysSo) {
  LlamaCase golden("mha_tied");
  const TemporaryFolder folder;
  torch::jit::Module module = exported(golden, folder);
  try {
    logits_of(module, at::zeros({1, golden.max_length + 1}, at::kLong));
    FAIL() << "no error";
  } catch (const std::exception& error) {
    EXPECT_NE(std::string(error.what()).find("max_position_embeddings"), std::string::npos)
        << error.what();
  }
}

TEST(TorchScript, AFullDiskIsAnErrorOfTheSystem) {
  LlamaCase golden("mha_tied");
  const std::string message = testing::error_of(ErrorKind::kIo, [&] {
    write_torchscript("/dev/full", golden.config, golden.parameters, golden.max_length,
                      DType::kF32);
  });
  EXPECT_NE(message.find("/dev/full"), std::string::npos) << message;
}

}  // namespace
}  // namespace lmtrain
