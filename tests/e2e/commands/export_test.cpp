// export: a model as a folder that transformers opens, read again by every command that reads one.
#include <gtest/gtest.h>

#include <algorithm>

#include "base/examine.h"
#include "e2e/references.h"
#include "formats/gguf_reader.h"
#include "formats/tensor_files.h"

namespace lmtrain::testing {
namespace {

namespace fs = std::filesystem;
using Arguments = std::vector<std::string>;

const std::string kHfModel = LMTRAIN_SOURCE_DIR "/tests/reference/eval/hf";
const std::string kSharded = LMTRAIN_SOURCE_DIR "/tests/reference/eval/hf_sharded";

ProcessResult export_hf(const std::string& target, const fs::path& to, const Arguments& more = {}) {
  Arguments command = {"export", target, "--format", "hf", "--to", to.string()};
  command.insert(command.end(), more.begin(), more.end());
  return lmtrain(command);
}

void expect_exported(const std::string& target, const fs::path& to, const Arguments& more = {}) {
  const ProcessResult result = export_hf(target, to, more);
  EXPECT_EQ(result.exit_code, 0) << result;
  // Of a run one line says which checkpoint it is.
  if (result.err.starts_with("checkpoint step ")) {
    EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result;
  } else {
    EXPECT_EQ(result.err, "");
  }
  EXPECT_NE(result.out.find(to.string()), std::string::npos) << result;
}

// Its keys are sorted, whatever their order in the file.
nlohmann::json config_of(const fs::path& folder) {
  return nlohmann::json::parse(read_text(folder / "config.json"));
}

// Every tensor with its shape and bytes.
std::map<std::string, std::string> tensors(const fs::path& folder) {
  std::map<std::string, std::string> all;
  const TensorFiles files(folder);
  for (const auto& [name, view] : files.tensors())
    all[name] = std::string(dtype_name(view.dtype)) + " " + std::string(view.bytes);
  return all;
}

std::string loss(const std::string& target) {
  const ProcessResult result = lmtrain({"eval", target, "--data", "data/sample", "--json"});
  EXPECT_EQ(result.exit_code, 0) << result;
  return Json::parse(result.out)["loss"].dump();
}

// The folder says whether texts begin with BOS, as the run did.
TEST(Export, AModelWithoutBosHasTheLossOfItsRun) {
  const Workspace workspace;
  const RunDir run =
      train(workspace.config({{"tokenizer", {{"add_bos", false}}}, {"train", {{"steps", 2}}}}),
            workspace / "run");
  expect_exported(run.path(), workspace / "model");
  EXPECT_EQ(loss(workspace / "model"), loss(run.path()));
}

TEST(Export, ARunIsAFolderOfTransformers) {
  const Workspace workspace;
  const fs::path checkpoint = reference().run.newest_checkpoint();
  const fs::path out = workspace / "new/exported";
  expect_exported(reference().run.path(), out);
  EXPECT_EQ(list_folder(out),
            (Arguments{"README.md", "config.json", "curve.svg", "generation_config.json",
                       "model.safetensors", "tokenizer.model", "tokenizer_config.json"}));
  for (const std::string& name : list_folder(out)) {
    if (name == "config.json") continue;
    EXPECT_EQ(read_text(out / name), read_text(checkpoint / name)) << name;
  }
  const nlohmann::json before = config_of(checkpoint);
  for (const auto& [key, value] : before.items()) EXPECT_EQ(config_of(out)[key], value) << key;
  EXPECT_EQ(loss(out.string()), loss(reference().run.path()));
  // A checkpoint of the run gives the same.
  expect_exported(checkpoint.string(), workspace / "again");
  EXPECT_EQ(contents(workspace / "again"), contents(out));
}

TEST(Export, AModelWithoutARunKeepsItsCardOrHasItsShape) {
  const Workspace workspace;
  expect_exported(kHfModel, workspace / "out");
  EXPECT_NE(read_text(workspace / "out/README.md").find("How it was trained is not known here."),
            std::string::npos);
  EXPECT_FALSE(is_there(workspace / "out/curve.svg"));
  fs::copy(kHfModel, workspace / "model");
  workspace.write("model/README.md", "---\nlicense: mit\n---\n");
  expect_exported(workspace / "model", workspace / "again");
  EXPECT_EQ(read_text(workspace / "again/README.md"), "---\nlicense: mit\n---\n");
}

// Version 4 of transformers ignores rope_parameters, version 5 writes nothing else.
TEST(Export, PositionsAreInTheFormsOfBothVersions) {
  const Workspace workspace;
  const nlohmann::json scaling = {{"rope_type", "llama3"},
                                  {"factor", 8.0},
                                  {"low_freq_factor", 1.0},
                                  {"high_freq_factor", 4.0},
                                  {"original_max_position_embeddings", 32}};
  nlohmann::json parameters = scaling;
  parameters["rope_theta"] = 500000.0;
  const auto exported = [&](const std::string& name, const nlohmann::json& rope) {
    fs::copy(kHfModel, workspace / name);
    nlohmann::json config = config_of(workspace / name);
    for (const char* key : {"rope_theta", "rope_scaling", "rope_parameters"}) config.erase(key);
    config.update(rope);
    workspace.write(name + "/config.json", config.dump());
    expect_exported(workspace / name, workspace / (name + "-out"));
    return config_of(workspace / (name + "-out"));
  };
  const nlohmann::json five = exported("five", {{"rope_parameters", parameters}});
  const nlohmann::json four =
      exported("four", {{"rope_theta", 500000.0}, {"rope_scaling", scaling}});
  for (const nlohmann::json& config : {five, four}) {
    EXPECT_EQ(config["rope_theta"], 500000.0);
    EXPECT_EQ(config["rope_scaling"], scaling);
    EXPECT_EQ(config["rope_parameters"], parameters);
  }
  EXPECT_EQ(loss(workspace / "five-out"), loss(workspace / "five"));
  const nlohmann::json plain =
      exported("plain", {{"rope_parameters", {{"rope_type", "default"}, {"rope_theta", 7000.0}}}});
  EXPECT_EQ(plain["rope_theta"], 7000.0);
  EXPECT_TRUE(plain["rope_scaling"].is_null());
}

TEST(Export, SixteenBitsAndShardsAreReadByEveryCommand) {
  const Workspace workspace;
  for (const char* dtype : {"bf16", "fp16"}) {
    const fs::path out = workspace / dtype;
    expect_exported(reference().run.path(), out, {"--dtype", dtype, "--shard-size", "20KB"});
    EXPECT_TRUE(is_there(out / "model.safetensors.index.json"));
    EXPECT_FALSE(is_there(out / "model.safetensors"));
    EXPECT_GT(list_folder(out).size(), 7U);
    const std::string name = std::string(dtype) == "bf16" ? "bfloat16" : "float16";
    EXPECT_EQ(config_of(out)["dtype"], name);
    EXPECT_EQ(config_of(out)["torch_dtype"], name);

    const double before = std::stod(loss(reference().run.path()));
    EXPECT_NEAR(std::stod(loss(out.string())), before, 1e-2);
    EXPECT_EQ(lmtrain({"generate", out.string(), "--prompt", "a", "--max-tokens", "3"}).exit_code,
              0);
    const ProcessResult trained = lmtrain({"train",
                                           workspace.config({{"init_from", out.string()},
                                                             {"model", nullptr},
                                                             {"tokenizer", nullptr},
                                                             {"train", {{"steps", 2}}}}),
                                           "--run-dir", (workspace / (name + "-run")).string()});
    EXPECT_EQ(trained.exit_code, 0) << trained;

    // Exported once more in fp32 and back, each number is as it was.
    expect_exported(out.string(), workspace / (name + "-wide"));
    expect_exported((workspace / (name + "-wide")).string(), workspace / (name + "-again"),
                    {"--dtype", dtype});
    EXPECT_EQ(tensors(workspace / (name + "-again")), tensors(out));
  }
}

TEST(Export, AFolderOfTransformersKeepsItsWeightsAndSettings) {
  const Workspace workspace;
  expect_exported(kHfModel, workspace / "fp32");
  EXPECT_EQ(tensors(workspace / "fp32"), tensors(kHfModel));
  EXPECT_EQ(read_text(workspace / "fp32/tokenizer.model"),
            read_text(fs::path(kHfModel) / "tokenizer.model"));
  expect_exported(kSharded, workspace / "bf16", {"--dtype", "bf16"});
  EXPECT_EQ(tensors(workspace / "bf16"), tensors(kSharded));
  nlohmann::json before = config_of(kHfModel), after = config_of(workspace / "fp32");
  for (const char* key : {"dtype", "torch_dtype"}) {
    before.erase(key);
    after.erase(key);
  }
  for (const auto& [key, value] : before.items()) EXPECT_EQ(after[key], value) << key;
}

// What the file computes is tested in tests/model/torchscript_test.cpp.
TEST(Export, TorchScriptIsOneFile) {
  const Workspace workspace;
  const std::string to = (workspace / "model.pt").string();
  const Arguments command = {"export", kHfModel, "--format", "torchscript", "--to", to};
  const ProcessResult result = lmtrain(command);
  EXPECT_EQ(result.exit_code, 0) << result;
  EXPECT_EQ(list_folder(workspace / ""), Arguments{"model.pt"});
  EXPECT_EQ(read_text(to).substr(0, 2), "PK");
  const ProcessResult again = lmtrain(command);
  EXPECT_EQ(again.exit_code, 2) << again;
  EXPECT_NE(again.err.find("model.pt is there already"), std::string::npos) << again;
  const ProcessResult shards = lmtrain({"export", kHfModel, "--format", "torchscript", "--to",
                                        (workspace / "b.pt").string(), "--shard-size", "1GB"});
  EXPECT_EQ(shards.exit_code, 2) << shards;
}

ProcessResult export_gguf(const std::string& target, const std::string& to,
                          const Arguments& more = {}) {
  Arguments command = {"export", target, "--format", "gguf", "--to", to};
  command.insert(command.end(), more.begin(), more.end());
  return lmtrain(command);
}

// What llama.cpp makes of it is seen by scripts/check_gguf.sh.
TEST(Export, GgufIsOneFileWithWeightsAndTokenizer) {
  const Workspace workspace;
  const std::string to = (workspace / "own.gguf").string();
  const ProcessResult result = export_gguf(reference().run.path(), to);
  EXPECT_EQ(result.exit_code, 0) << result;
  EXPECT_NE(result.out.find("own.gguf"), std::string::npos) << result;
  EXPECT_EQ(list_folder(workspace / ""), Arguments{"own.gguf"});

  const TensorFiles weights(reference().run.newest_checkpoint());
  const std::string bytes = read_text(to);
  const GgufReader file(bytes);
  EXPECT_EQ(file.magic, "GGUF");
  EXPECT_EQ(file.tensors.size(), weights.tensors().size());
  EXPECT_EQ(file.text_of("general.architecture"), "llama");
  const TensorView& embedding = weights.at("model.embed_tokens.weight");
  EXPECT_EQ(file.values.at("tokenizer.ggml.tokens").texts.size(),
            static_cast<size_t>(embedding.shape.front()));
  const std::map<std::string, std::string> same = {
      {"token_embd.weight", "model.embed_tokens.weight"},
      {"blk.0.attn_v.weight", "model.layers.0.self_attn.v_proj.weight"},
      {"output_norm.weight", "model.norm.weight"}};
  for (const auto& [name, hf_name] : same) {
    const std::string_view expected = weights.at(hf_name).bytes;
    EXPECT_EQ(file.data(file.tensor(name), expected.size()), expected) << name;
  }
  const std::string_view queries = weights.at("model.layers.0.self_attn.q_proj.weight").bytes;
  EXPECT_NE(file.data(file.tensor("blk.0.attn_q.weight"), queries.size()), queries);

  const ProcessResult again = export_gguf(reference().run.path(), to);
  EXPECT_EQ(again.exit_code, 2) << again;
  EXPECT_NE(again.err.find("own.gguf is there already"), std::string::npos) << again;
  const ProcessResult shards =
      export_gguf(kHfModel, (workspace / "b").string(), {"--shard-size", "1GB"});
  EXPECT_EQ(shards.exit_code, 2) << shards;
  EXPECT_NE(shards.err.find("gguf is one file"), std::string::npos) << shards;
}

TEST(Export, GgufHasTheTypesOfItsDtype) {
  const Workspace workspace;
  // Rows of 16 and 36 are no whole blocks of 32.
  for (const auto& [dtype, type] :
       std::map<std::string, uint32_t>{{"fp32", 0}, {"fp16", 1}, {"bf16", 30}, {"q8_0", 1}}) {
    const std::string to = (workspace / dtype).string();
    const ProcessResult result = export_gguf(kHfModel, to, {"--dtype", dtype});
    EXPECT_EQ(result.exit_code, 0) << result;
    EXPECT_EQ(result.err.find("in fp16, since q8_0 needs rows") != std::string::npos,
              dtype == "q8_0")
        << result;
    const std::string bytes = read_text(to);
    const GgufReader file(bytes);
    EXPECT_EQ(file.tensor("token_embd.weight").type, type) << dtype;
    EXPECT_EQ(file.tensor("output_norm.weight").type, 0U) << dtype;
  }
}

// PyPI's package gguf has read every field and tensor of the stored files
// (tests/reference/gguf_files.py). A change of the bytes is shown to it first.
TEST(Export, GgufFilesAreTheOnesThatThePackageReads) {
  const Workspace workspace;
  const fs::path stored = fs::path(LMTRAIN_SOURCE_DIR) / "tests/reference/gguf";
  fs::copy(kHfModel, workspace / "llama");
  fs::copy(stored / "qwen3", workspace / "qwen3");
  fs::copy(stored.parent_path() / "tokenizer_json/qwen2.json", workspace / "qwen3/tokenizer.json");
  for (const auto& [model, dtype] : std::vector<std::pair<std::string, std::string>>{
           {"llama", "fp32"}, {"llama", "bf16"}, {"qwen3", "fp16"}, {"qwen3", "q8_0"}}) {
    const std::string name = str(model, "-", dtype, ".gguf");
    const ProcessResult result =
        export_gguf(workspace / model, workspace / name, {"--dtype", dtype});
    EXPECT_EQ(result.exit_code, 0) << result;
    EXPECT_TRUE(read_text(workspace / name) == read_text(stored / name))
        << name << " has other bytes; if they are meant, run tests/reference/gguf_files.py";
  }
}

TEST(Export, GgufNeedsATokenizer) {
  const Workspace workspace;
  fs::copy(kHfModel, workspace / "model");
  fs::remove(workspace / "model/tokenizer.model");
  const ProcessResult result = export_gguf(workspace / "model", (workspace / "own.gguf").string());
  EXPECT_EQ(result.exit_code, 2) << result;
  EXPECT_NE(result.err.find("has no tokenizer.model"), std::string::npos) << result;
  EXPECT_EQ(list_folder(workspace / ""), Arguments{"model"});
}

TEST(Export, RefusesWhatItCannotWriteAndLeavesNothing) {
  const Workspace workspace;
  workspace.write("full/file", "mine");
  struct Refusal {
    fs::path to;
    Arguments more;
    int exit_code;
    std::string part;
  };
  for (const Refusal& refusal : std::vector<Refusal>{
           {workspace / "full", {}, 2, "is a folder that is not empty"},
           {workspace / "full/file", {}, 2, "is there already"},
           {workspace / "full/file/below", {}, 5, "full/file"},
           {workspace / "out", {"--dtype", "int8"}, 2, "give fp32, bf16, fp16 or q8_0"},
           {workspace / "out", {"--dtype", "q8_0"}, 2, "goes with --format gguf"},
           {workspace / "out", {"--format", "onnx"}, 2, "--format"},
           {workspace / "out", {"--shard-size", "0"}, 2, "give bytes above 0"}}) {
    const ProcessResult result = export_hf(kHfModel, refusal.to, refusal.more);
    EXPECT_EQ(result.exit_code, refusal.exit_code) << result;
    EXPECT_NE(result.err.find(refusal.part), std::string::npos) << result;
  }
  const ProcessResult missing = export_hf("no/such/run", workspace / "out");
  EXPECT_EQ(missing.exit_code, 2) << missing;
  EXPECT_EQ(contents(workspace / "full"), (std::map<std::string, std::string>{{"file", "mine"}}));
  for (const std::string& name : list_folder(workspace / "")) EXPECT_EQ(name, "full");
}

}  // namespace
}  // namespace lmtrain::testing
