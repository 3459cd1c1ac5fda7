// Everything that can be wrong with what lmtrain is given: the exit code says whose fault it is,
// and the message names the location and a cure. One row a case.
#include <gtest/gtest.h>

#include <csignal>
#include <cstring>
#include <fstream>
#include <functional>

#include "base/files/file.h"
#include "e2e/references.h"
#include "e2e/tamper.h"
#include "formats/safetensors.h"

namespace lmtrain::testing {
namespace {

namespace fs = std::filesystem;
using Arguments = std::vector<std::string>;

struct ErrorCase {
  std::string name;
  int exit_code = 0;
  std::vector<std::string> parts;  // of the message: the location, what is wrong, the cure
  std::function<Arguments(const Workspace&)> prepare;
};

std::ostream& operator<<(std::ostream& out, const ErrorCase& test) { return out << test.name; }

class Errors : public ::testing::TestWithParam<ErrorCase> {};

TEST_P(Errors, NameLocationAndCure) {
  const ErrorCase& test = GetParam();
  const Workspace workspace;
  const ProcessResult result = lmtrain(test.prepare(workspace));
  EXPECT_EQ(result.exit_code, test.exit_code) << result;
  EXPECT_EQ(result.out, "") << result;
  for (const std::string& part : test.parts) {
    EXPECT_NE(result.err.find(part), std::string::npos) << '"' << part << "\" is not in\n"
                                                        << result.err;
  }
  for (const char* bad : {"internal error", "what():", "terminate called", "c10::", "nlohmann"}) {
    EXPECT_EQ(result.err.find(bad), std::string::npos) << result.err;
  }
  EXPECT_FALSE(fs::exists(workspace / "run/config.json")) << "a run was begun";
  if (std::getenv("LMTRAIN_SHOW_ERRORS") != nullptr) {
    std::cout << test.name << ": " << result.err << std::flush;
  }
}

// ---- The configuration ----

Arguments train_command(const Workspace& workspace, const std::string& config) {
  return {"train", config, "--run-dir", (workspace / "run").string()};
}

// train with tiny_config changed.
ErrorCase config_case(const std::string& name, int exit_code, const Json& changes,
                      const std::vector<std::string>& parts) {
  return {name, exit_code, parts, [changes](const Workspace& workspace) {
            return train_command(workspace, workspace.config(changes));
          }};
}

// train with a file of exactly this text.
ErrorCase text_case(const std::string& name, const std::string& text,
                    const std::vector<std::string>& parts) {
  return {name, 2, parts, [text](const Workspace& workspace) {
            return train_command(workspace, workspace.write("config.json", text));
          }};
}

ErrorCase command_case(const std::string& name, int exit_code, const Arguments& arguments,
                       const std::vector<std::string>& parts) {
  return {name, exit_code, parts, [arguments](const Workspace&) { return arguments; }};
}

ErrorCase set_case(const std::string& name, const std::string& setting,
                   const std::vector<std::string>& parts) {
  return {name, 2, parts, [setting](const Workspace& workspace) {
            Arguments arguments = train_command(workspace, workspace.config());
            arguments.insert(arguments.end(), {"--set", setting});
            return arguments;
          }};
}

std::vector<ErrorCase> config_cases() {
  return {
      config_case("UnknownKey", 2, {{"optimizer", {{"learning_rate", 1e-3}}}},
                  {"config.json:", "/optimizer/learning_rate", "unknown"}),
      config_case("MisspeltKey", 2, {{"optimizer", {{"weight_decai", 0.1}}}},
                  {"config.json:", "/optimizer/weight_decai", "did you mean", "weight_decay"}),
      config_case("MisspeltSection", 2, {{"optimiser", Json::object()}},
                  {"config.json:", "/optimiser", "optimizer"}),
      config_case("WrongType", 2, {{"seed", "abc"}}, {"config.json:", "/seed", "abc"}),
      config_case("FractionForCount", 2, {{"model", {{"num_hidden_layers", 1.5}}}},
                  {"config.json:", "/model/num_hidden_layers", "1.5"}),
      config_case("OutOfRange", 2, {{"optimizer", {{"lr", -1}}}},
                  {"config.json:", "/optimizer/lr", "-1", "allowed"}),
      config_case("UnknownChoice", 2, {{"sequence", {{"batching", "buckets"}}}},
                  {"/sequence/batching", "buckets", "bucket", "concat"}),
      config_case("TwoLengths", 2, {{"train", {{"tokens", "1M"}}}},
                  {"train.steps", "train.tokens", "one of"}),
      config_case("BadUnit", 2, {{"eval", {{"every", "5 stepz"}}}},
                  {"/eval/every", "5 stepz", "allowed"}),
      config_case("NoData", 2, {{"data", {{"train", nullptr}}}}, {"data.train", "missing"}),
      config_case("LengthNoPowerOfTwo", 2, {{"sequence", {{"max_length", 48}}}},
                  {"/sequence/max_length", "48", "power of two", "32 and 64"}),
      config_case("MinAboveMax", 2, {{"sequence", {{"min_length", 128}}}},
                  {"min_length 128", "max_length 64"}),
      config_case("BatchNoMultiple", 2, {{"batch", {{"tokens", 100}}}},
                  {"/batch/tokens", "100", "multiple", "128"}),
      config_case("MicroBatchNoDivisor", 2, {{"batch", {{"micro_tokens", 192}}}},
                  {"/batch/micro_tokens", "192", "256"}),
      config_case("HeadsDoNotDivide", 2, {{"model", {{"num_attention_heads", 3}}}},
                  {"num_attention_heads", "3", "multiple"}),
      config_case("KeyValueHeadsDoNotDivide", 2, {{"model", {{"num_key_value_heads", 3}}}},
                  {"num_key_value_heads", "3", "multiple"}),
      config_case("OrderWithoutBuckets", 2,
                  {{"sequence", {{"batching", "concat"}, {"schedule", {{"type", "grow_p2"}}}}}},
                  {"sequence.schedule.type", "grow_p2", "constant"}),
      config_case("VocabularyWithoutBytes", 2,
                  {{"tokenizer", {{"model", nullptr}, {"train", {{"vocab_size", 100}}}}}},
                  {"tokenizer.train.vocab_size", "100", "260"}),
      config_case("BiasedModel", 2, {{"model", {{"attention_bias", true}}}},
                  {"/model/attention_bias", "true"}),
      config_case("UndefinedVariable", 2, {{"data", {{"train", {"${LMTRAIN_NO_SUCH}/a"}}}}},
                  {"LMTRAIN_NO_SUCH", "/data/train"}),
      config_case("ThreeAtOnce", 2, {{"seed", "x"}, {"sedd", 1}, {"clip", {{"max", -2}}}},
                  {"/seed", "/sedd", "/clip/max"}),
      text_case("DuplicateKey", "{\n  \"seed\": 1,\n  \"seed\": 2\n}\n",
                {"config.json:3", "/seed", "twice"}),
      text_case("NoJson", "{\n  \"seed\": ,\n}\n", {"config.json:2"}),
      text_case("CutShort", "{\n  \"seed\": 1,\n  \"data\": {", {"config.json:3"}),
      text_case("EmptyFile", "", {"config.json:1"}),
      text_case("NotAnObject", "[1, 2]\n", {"config.json:1", "object"}),
      text_case("BinaryFile",
                std::string("\x7F"
                            "ELF\0\1\2\xFF",
                            8),
                {"config.json:1"}),
      {"MissingConfig",
       2,
       {"no-such.json", "no such file", "give the path"},
       [](const Workspace& workspace) {
         return train_command(workspace, (workspace / "no-such.json").string());
       }},
      {"ConfigIsAFolder",
       2,
       {"is a folder"},
       [](const Workspace& workspace) {
         fs::create_directory(workspace / "config.json");
         return train_command(workspace, (workspace / "config.json").string());
       }},
      set_case("SetUnknownKey", "optimizer.lrr=1", {"--set", "optimizer", "lrr", "lr"}),
      set_case("SetWithoutValue", "optimizer.lr", {"--set", "optimizer.lr", "="}),
      set_case("SetWrongType", "train.steps=many", {"--set", "/train/steps", "many"}),
      set_case("SetTwoLengths", "train={\"steps\":5,\"tokens\":7}",
               {"train.steps", "train.tokens"}),
      set_case("SetBrokenJson", "data={\"train\":", {"--set", "data"}),
  };
}

std::vector<ErrorCase> unsupported_cases() {
  return {
      config_case("PrecisionFp8", 2, {{"precision", "fp8"}, {"device", "cpu"}},
                  {"\"fp8\"", "on a CPU", "8.9", "set precision to \"bf16\""}),
      config_case("Fp8HiddenSize", 2, {{"precision", "fp8"}, {"model", {{"hidden_size", 136}}}},
                  {"config.json:", "/model/hidden_size", "136", "multiple of 16"}),
      config_case("NoGpu", 2, {{"device", "cuda"}}, {"cuda", "set device to \"cpu\" or \"auto\""}),
      config_case("NoSuchGpu", 2, {{"device", "cuda:31"}}, {"cuda:31", "cpu", "auto"}),
      config_case("BadDevice", 2, {{"device", "gpu"}}, {"/device", "gpu", "cuda"}),
  };
}

// ---- Data and tokenizer ----

// train on one file of this content.
ErrorCase corpus_case(const std::string& name, int exit_code, const std::string& file,
                      const std::string& text, const std::vector<std::string>& parts) {
  return {name, exit_code, parts, [file, text](const Workspace& workspace) {
            const std::string path = workspace.write(file, text);
            return train_command(workspace, workspace.config({{"data", {{"train", {path}}}}}));
          }};
}

ErrorCase tokenizer_case(const std::string& name, int exit_code, const std::string& text,
                         const std::vector<std::string>& parts) {
  return {name, exit_code, parts, [text](const Workspace& workspace) {
            const std::string path = workspace.write("wrong.model", text);
            return train_command(workspace, workspace.config({{"tokenizer", {{"model", path}}}}));
          }};
}

std::vector<ErrorCase> data_cases() {
  const std::string model =
      read_text(LMTRAIN_SOURCE_DIR "/tests/reference/tokenizer/tokenizer.model");
  return {
      config_case("MissingCorpus", 2, {{"data", {{"train", {"no/such/folder"}}}}},
                  {"/data/train/0", "no/such/folder", "check the spelling"}),
      config_case("PatternWithoutMatch", 2, {{"data", {{"train", {"data/sample/*.rst"}}}}},
                  {"/data/train/0", "data/sample/*.rst", "matches no file"}),
      config_case("MissingEvalCorpus", 2, {{"data", {{"eval", {"no-such.txt"}}}}},
                  {"/data/eval/0", "no-such.txt"}),
      // Reading a process's memory at address 0 is an error even for root.
      config_case("UnreadableCorpus", 5, {{"data", {{"train", {"/proc/self/mem"}}}}},
                  {"cannot read /proc/self/mem"}),
      {"EmptyFolder",
       2,
       {"/data/train/0", "holds no files"},
       [](const Workspace& workspace) {
         fs::create_directory(workspace / "text");
         return train_command(workspace,
                              workspace.config({{"data", {{"train", {workspace / "text"}}}}}));
       }},
      corpus_case("NoDocument", 3, "empty.jsonl", "\n\n", {"/data/train", "no document"}),
      corpus_case("BrokenLine", 3, "broken.jsonl",
                  "{\"text\": \"one\"}\n{\"text\": \"two\"}\n{\"text\": \"thr",
                  {"broken.jsonl:3", "not JSON", "one JSON object"}),
      corpus_case("MissingField", 3, "fields.jsonl", "{\"text\": \"one\"}\n{\"txt\": \"two\"}\n",
                  {"fields.jsonl:2", "\"text\"", "\"txt\"", "data.text_field"}),
      corpus_case("FieldNoString", 3, "types.jsonl", "{\"text\": 5}\n",
                  {"types.jsonl:1", "number", "string"}),
      corpus_case("LineNoObject", 3, "list.jsonl", "[1]\n", {"list.jsonl:1", "object"}),
      corpus_case("Archive", 3, "text.txt.gz", "x", {"text.txt.gz", "cut short", "byte 1"}),
      corpus_case("UnreadArchive", 2, "text.txt.xz", "x", {"text.txt.xz", ".xz"}),
      corpus_case("Table", 3, "text.parquet", "PAR1", {"text.parquet", "damaged"}),
      config_case("MissingTokenizer", 2, {{"tokenizer", {{"model", "no-such.model"}}}},
                  {"/tokenizer/model", "no-such.model", "null"}),
      config_case("TokenizerIsAFolder", 2, {{"tokenizer", {{"model", "data/sample"}}}},
                  {"data/sample", "is a folder", "give the .model file"}),
      tokenizer_case("TokenizerIsText", 3, "this is no model",
                     {"wrong.model", "not a sentencepiece model"}),
      tokenizer_case("TokenizerIsEmpty", 3, "", {"wrong.model", "not a sentencepiece model"}),
      tokenizer_case("TokenizerIsCut", 3, model.substr(0, model.size() / 2 + 1),
                     {"wrong.model", "not a sentencepiece model"}),
      config_case("TokenizerLargerThanModel", 2, {{"model", {{"vocab_size", 300}}}},
                  {"model.vocab_size", "300", "384", "null"}),
      config_case("TooLittleTextForVocabulary", 3,
                  {{"tokenizer", {{"model", nullptr}, {"train", {{"vocab_size", 30000}}}}}},
                  {"tokenizer.train.vocab_size", "30000"}),
  };
}

// ---- init_from ----

const fs::path kHfFolder = LMTRAIN_SOURCE_DIR "/tests/reference/eval/hf";

Json init_config(const fs::path& folder, Json changes = Json::object()) {
  Json config = {{"init_from", folder.string()}, {"model", nullptr}, {"tokenizer", nullptr}};
  config.merge_patch(changes);
  return config;
}

// train from a copy of a HF folder that `change` has broken.
ErrorCase init_case(const std::string& name, int exit_code, const std::vector<std::string>& parts,
                    const std::function<void(const fs::path& folder)>& change,
                    const Json& changes = Json::object()) {
  return {name, exit_code, parts, [=](const Workspace& workspace) {
            const fs::path folder = workspace / "hf";
            fs::copy(kHfFolder, folder);
            change(folder);
            return train_command(workspace, workspace.config(init_config(folder, changes)));
          }};
}

void change_json(const fs::path& path, const std::function<void(Json&)>& change) {
  Json json = Json::parse(read_text(path));
  change(json);
  replace_file(path, json.dump(2));
}

using Tensors = std::map<std::string, TensorToWrite>;

// Rewrites model.safetensors; added tensors may point to `zeros`.
void change_tensors(const fs::path& folder,
                    const std::function<void(Tensors&, const void* zeros)>& change) {
  const fs::path path = folder / "model.safetensors";
  const fs::path changed = folder / "changed";
  {
    static const std::string zeros(1 << 20, '\0');
    const SafetensorsFile file(path);
    Tensors tensors;
    for (const auto& [name, view] : file.tensors()) {
      tensors[name] = {name, view.dtype, view.shape, view.bytes.data()};
    }
    change(tensors, zeros.data());
    std::vector<TensorToWrite> list;
    for (const auto& [name, tensor] : tensors) list.push_back(tensor);
    FileWriter writer(changed);
    write_safetensors(writer, list, {{"format", "pt"}});
    writer.finish();
  }
  fs::rename(changed, path);
}

constexpr const char* kSomeTensor = "model.layers.0.self_attn.q_proj.weight";

std::vector<ErrorCase> init_cases() {
  std::vector<ErrorCase> cases = {
      config_case("InitMissing", 2, {{"init_from", "no/such/model"}},
                  {"/init_from", "no/such/model", "does not exist", "give a"}),
      config_case("InitNoModel", 2, {{"init_from", "data/sample"}},
                  {"/init_from", "no config.json", "give a"}),
      init_case("InitContradicts", 2, {"/model/hidden_size", "contradicts", "leave the key out"},
                [](const auto&) {}, {{"model", {{"hidden_size", 48}}}}),
      init_case("InitNotLlama", 2, {"config.json:", "/model_type", "gpt2"},
                [](const fs::path& folder) {
                  change_json(folder / "config.json", [](Json& c) { c["model_type"] = "gpt2"; });
                }),
      init_case("InitOtherActivation", 2, {"config.json:", "/hidden_act", "gelu", "silu"},
                [](const fs::path& folder) {
                  change_json(folder / "config.json", [](Json& c) { c["hidden_act"] = "gelu"; });
                }),
      init_case("InitBrokenConfig", 2, {"hf/config.json:"},
                [](const fs::path& folder) { replace_file(folder / "config.json", "{"); }),
      init_case("InitNoWeights", 3, {"hf", "model.safetensors"},
                [](const fs::path& folder) { fs::remove(folder / "model.safetensors"); }),
      init_case("InitOnlyPickle", 3, {"hf", "pytorch_model.bin", "convert", "save_pretrained"},
                [](const fs::path& folder) {
                  fs::rename(folder / "model.safetensors", folder / "pytorch_model.bin");
                }),
      init_case("InitWrongShape", 3, {"hf", kSomeTensor, "shape", "config.json"},
                [](const fs::path& folder) {
                  change_tensors(folder, [](Tensors& tensors, const void* zeros) {
                    tensors[kSomeTensor] = {kSomeTensor, DType::kF32, {3, 5}, zeros};
                  });
                }),
      init_case("InitMissingTensor", 3, {"hf", kSomeTensor, "config.json"},
                [](const fs::path& folder) {
                  change_tensors(folder,
                                 [](Tensors& tensors, const void*) { tensors.erase(kSomeTensor); });
                }),
      init_case("InitUnknownTensor", 3, {"hf", "q_proj.bias", "bias"},
                [](const fs::path& folder) {
                  change_tensors(folder, [](Tensors& tensors, const void* zeros) {
                    const std::string name = "model.layers.0.self_attn.q_proj.bias";
                    tensors[name] = {name, DType::kF32, {4}, zeros};
                  });
                }),
      init_case("InitIntegerWeights", 3, {"hf", kSomeTensor, "I32", "F32"},
                [](const fs::path& folder) {
                  change_tensors(folder, [](Tensors& tensors, const void*) {
                    tensors[kSomeTensor].dtype = DType::kI32;
                  });
                }),
      init_case("InitUnknownDtype", 3, {"model.safetensors", "NaN32"},
                [](const fs::path& folder) {
                  std::string bytes = read_text(folder / "model.safetensors");
                  const size_t dtype = bytes.find("\"F32\"");
                  uint64_t header = 0;
                  std::memcpy(&header, bytes.data(), sizeof header);
                  bytes.replace(dtype, 5, "\"NaN32\"");
                  header += 2;
                  std::memcpy(bytes.data(), &header, sizeof header);
                  replace_file(folder / "model.safetensors", bytes);
                }),
      {"InitShardMissing",
       3,
       {"model.safetensors.index.json", "model-00002-of-00002.safetensors"},
       [](const Workspace& workspace) {
         const fs::path folder = workspace / "hf";
         fs::copy(kHfFolder.string() + "_sharded", folder);
         fs::remove(folder / "model-00002-of-00002.safetensors");
         return train_command(workspace, workspace.config(init_config(folder)));
       }},
      {"InitIsARunWithoutACheckpoint",
       2,
       {"/init_from", "no checkpoint yet"},
       [](const Workspace& workspace) {
         fs::create_directories(workspace / "other/checkpoints");
         return train_command(workspace, workspace.config(init_config(workspace / "other")));
       }},
      {"InitDamagedCheckpoint",
       3,
       {"model.safetensors"},
       [](const Workspace& workspace) {
         const fs::path folder = workspace / "checkpoint";
         fs::copy(reference().run.newest_checkpoint(), folder);
         flip_bit(folder / "model.safetensors", -1);
         return train_command(workspace, workspace.config(init_config(folder)));
       }},
      {"InitUnfinishedCheckpoint",
       3,
       {"manifest.json"},
       [](const Workspace& workspace) {
         const fs::path folder = workspace / "checkpoint";
         fs::copy(reference().run.newest_checkpoint(), folder);
         fs::remove(folder / "manifest.json");
         return train_command(workspace, workspace.config(init_config(folder)));
       }},
  };
  for (const int64_t length : {0, 1, 7, 8, 9, 500, 5000, 46879}) {
    cases.push_back(init_case("InitCutAt" + std::to_string(length), 3,
                              {"hf/model.safetensors", "again"}, [length](const fs::path& folder) {
                                fs::resize_file(folder / "model.safetensors",
                                                static_cast<uint64_t>(length));
                              }));
  }
  return cases;
}

// ---- Targets: eval, generate, resume ----

// A command on a copy of the reference run that `change` has broken; {run} in the arguments is it.
ErrorCase run_case(const std::string& name, int exit_code, const Arguments& arguments,
                   const std::vector<std::string>& parts,
                   const std::function<void(const RunDir&)>& change) {
  return {name, exit_code, parts, [=](const Workspace& workspace) {
            const RunDir run = reference().run.copy(workspace / "copy");
            change(run);
            Arguments filled = arguments;
            for (std::string& argument : filled) {
              if (argument == "{run}") argument = run.path();
              if (argument == "{checkpoint}") argument = run.newest_checkpoint().string();
            }
            return filled;
          }};
}

Arguments eval_hf(const Arguments& more) {
  Arguments arguments = {"eval", kHfFolder.string(), "--data", "data/sample"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

// eval of a copy of the HF folder.
ErrorCase hf_case(const std::string& name, int exit_code, const std::vector<std::string>& parts,
                  const std::function<void(const fs::path& folder)>& change) {
  return {name, exit_code, parts, [=](const Workspace& workspace) {
            const fs::path folder = workspace / "hf";
            fs::copy(kHfFolder, folder);
            change(folder);
            return Arguments{"eval", folder.string(), "--data", "data/sample"};
          }};
}

std::vector<ErrorCase> target_cases() {
  const auto nothing = [](const RunDir&) {};
  const auto break_all = [](const RunDir& run) {
    for (const int64_t step : run.checkpoint_steps()) {
      flip_bit(run.checkpoint(step) / "model.safetensors", -1);
    }
  };
  const std::string hf = kHfFolder.string();
  return {
      command_case("EvalMissingTarget", 2, {"eval", "no/such/run"},
                   {"no/such/run", "does not exist", "give a run folder"}),
      command_case("EvalOfAFile", 2, {"eval", "README.md"}, {"README.md"}),
      {"EvalOfAnEmptyFolder",
       2,
       {"holds no model", "config.json"},
       [](const Workspace& workspace) {
         fs::create_directory(workspace / "empty");
         return Arguments{"eval", (workspace / "empty").string()};
       }},
      command_case("EvalWithoutData", 2, {"eval", hf}, {"--data"}),
      command_case("EvalMissingData", 2, {"eval", hf, "--data", "no-such.txt"}, {"no-such.txt"}),
      command_case("EvalBadLength", 2, eval_hf({"--max-length", "0"}), {"--max-length", "above 0"}),
      command_case("EvalBadBatch", 2, eval_hf({"--batch-tokens", "many"}),
                   {"--batch-tokens", "\"many\"", "above 0"}),
      command_case("EvalPrecision", 2, eval_hf({"--precision", "fp8"}), {"fp8", "allowed"}),
      command_case("EvalNoSuchPrecision", 2, eval_hf({"--precision", "half"}), {"half", "allowed"}),
      command_case("EvalDevice", 2, eval_hf({"--device", "cuda:31"}), {"cuda:31", "auto"}),
      command_case("EvalNoSuchDevice", 2, eval_hf({"--device", "gpu"}), {"gpu", "auto"}),
      command_case("EvalMissingTokenizer", 2, eval_hf({"--tokenizer", "no-such.model"}),
                   {"no-such.model", "--tokenizer"}),
      command_case("EvalWrongTokenizer", 3, eval_hf({"--tokenizer", "README.md"}),
                   {"README.md", "not a sentencepiece model"}),
      {"EvalBrokenData",
       3,
       {"broken.jsonl:1", "not JSON"},
       [hf](const Workspace& workspace) {
         return Arguments{"eval", hf, "--data", workspace.write("broken.jsonl", "{\n")};
       }},
      hf_case("EvalNoTokenizer", 2, {"tokenizer", "--tokenizer"},
              [](const fs::path& folder) { fs::remove(folder / "tokenizer.model"); }),
      hf_case("EvalTokenizerTooLarge", 3, {"384", "do not belong together"},
              [](const fs::path& folder) {
                change_json(folder / "config.json", [](Json& c) { c["vocab_size"] = 100; });
              }),
      hf_case("EvalBadPositions", 2, {"config.json", "/max_position_embeddings", "allowed"},
              [](const fs::path& folder) {
                change_json(folder / "config.json",
                            [](Json& c) { c["max_position_embeddings"] = "long"; });
              }),
      hf_case("EvalNegativePositions", 2, {"config.json", "/max_position_embeddings", "allowed"},
              [](const fs::path& folder) {
                change_json(folder / "config.json",
                            [](Json& c) { c["max_position_embeddings"] = -5; });
              }),
      run_case("EvalDamagedRun", 3, {"eval", "{run}"}, {"every checkpoint", "model.safetensors"},
               break_all),
      run_case("EvalDamagedCheckpoint", 3, {"eval", "{checkpoint}"}, {"model.safetensors"},
               break_all),
      run_case("EvalWithoutManifest", 3, {"eval", "{checkpoint}"}, {"manifest.json"},
               [](const RunDir& run) { fs::remove(run.newest_checkpoint() / "manifest.json"); }),
      run_case("EvalRunWithoutCheckpoint", 2, {"eval", "{run}"}, {"no checkpoint"},
               [](const RunDir& run) {
                 fs::remove_all(run.folder() / "checkpoints");
                 fs::create_directory(run.folder() / "checkpoints");
               }),
      run_case("ResumeAllDamaged", 3, {"resume", "{run}"}, {"every checkpoint", "backup"},
               break_all),
      run_case("ResumeBrokenConfig", 3, {"resume", "{run}"}, {"config.json:1", "cp "},
               [](const RunDir& run) { replace_file(run.folder() / "config.json", "{"); }),
      run_case("ResumeUnknownSetting", 2, {"resume", "{run}", "--set", "train.stps=5"},
               {"--set", "stps", "steps"}, nothing),
      run_case("ResumeInFp8", 2,
               {"resume", "{run}", "--set", "precision=fp8", "--set", "device=cpu"},
               {"\"fp8\"", "on a CPU", "set precision to"}, nothing),
      command_case("ResumeMissing", 2, {"resume", "no/such/run"}, {"no/such/run", "lmtrain train"}),
      command_case("ResumeNoRun", 2, {"resume", "data/sample"},
                   {"data/sample is not a run folder", "lmtrain train"}),
      command_case("GenerateMissing", 2, {"generate", "no/such/run", "--prompt", "a"},
                   {"no/such/run", "does not exist"}),
      command_case("GenerateWithoutPrompt", 2, {"generate", hf}, {"--prompt"}),
      command_case("GenerateTopP", 2, {"generate", hf, "--prompt", "a", "--top-p", "2"},
                   {"--top-p", "from 0 to 1"}),
      command_case("GenerateTemperature", 2,
                   {"generate", hf, "--prompt", "a", "--temperature", "-1"},
                   {"--temperature", "-1", "at least 0"}),
      command_case("GenerateSeed", 2, {"generate", hf, "--prompt", "a", "--seed", "x"},
                   {"--seed", "\"x\"", "an integer"}),
      run_case("GenerateDamaged", 3, {"generate", "{run}", "--prompt", "a"}, {"every checkpoint"},
               break_all),
  };
}

// ---- Command line and paths to write ----

std::vector<ErrorCase> usage_cases() {
  return {
      command_case("NoCommand", 2, {}, {"--help"}),
      command_case("UnknownCommand", 2, {"trian", "x"},
                   {"trian", "did you mean \"train\"", "--help"}),
      command_case("UnknownOption", 2, {"train", "configs/tiny.json", "--frob"},
                   {"--frob", "--help"}),
      command_case("TrainWithoutConfig", 2, {"train"}, {"config", "--help"}),
      command_case("ExplainUnknown", 2, {"config", "explain", "optimizer.lrr"},
                   {"optimizer.lrr", "optimizer.lr"}),
      command_case("ShowMissing", 2, {"config", "show", "no-such.json"}, {"no-such.json"}),
      command_case("PrepareMissing", 2, {"prepare", "no-such.json"}, {"no-such.json"}),
      {"RunFolderBelowAFile",
       5,
       {"cannot create the folder", "file/run"},
       [](const Workspace& workspace) {
         workspace.write("file", "");
         return Arguments{"train", workspace.config(), "--run-dir",
                          (workspace / "file/run").string()};
       }},
      {"RunFolderIsAFile",
       5,
       {"file"},
       [](const Workspace& workspace) {
         return Arguments{"train", workspace.config(), "--run-dir", workspace.write("file", "")};
       }},
      {"RunFolderInProc",
       5,
       {"/proc/lmtrain"},
       [](const Workspace& workspace) {
         return Arguments{"train", workspace.config(), "--run-dir", "/proc/lmtrain"};
       }},
      {"CacheIsAFile",
       5,
       {"cannot create the folder", "file"},
       [](const Workspace& workspace) {
         const std::string file = workspace.write("file", "");
         return train_command(workspace, workspace.config({{"data", {{"cache_dir", file}}}}));
       }},
  };
}

const auto kName = [](const auto& test) { return test.param.name; };
INSTANTIATE_TEST_SUITE_P(Config, Errors, ::testing::ValuesIn(config_cases()), kName);
INSTANTIATE_TEST_SUITE_P(Unsupported, Errors, ::testing::ValuesIn(unsupported_cases()), kName);
INSTANTIATE_TEST_SUITE_P(Data, Errors, ::testing::ValuesIn(data_cases()), kName);
INSTANTIATE_TEST_SUITE_P(Init, Errors, ::testing::ValuesIn(init_cases()), kName);
INSTANTIATE_TEST_SUITE_P(Target, Errors, ::testing::ValuesIn(target_cases()), kName);
INSTANTIATE_TEST_SUITE_P(Usage, Errors, ::testing::ValuesIn(usage_cases()), kName);

}  // namespace
}  // namespace lmtrain::testing
