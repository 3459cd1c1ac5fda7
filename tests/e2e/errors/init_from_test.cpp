// Errors of the folder that `init_from` names.
#include <cmath>
#include <cstring>
#include <map>

#include "base/file.h"
#include "e2e/errors/error_case.h"
#include "e2e/references.h"
#include "e2e/tamper.h"
#include "formats/safetensors.h"

namespace lmtrain::testing {
namespace {

namespace fs = std::filesystem;

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
      init_case("InitNotFinite", 3, {"hf (init_from)", "are not finite (first: ", kSomeTensor},
                [](const fs::path& folder) {
                  static const std::vector<float> nans(1 << 16, NAN);
                  change_tensors(folder, [](Tensors& tensors, const void*) {
                    TensorToWrite& tensor = tensors[kSomeTensor];
                    tensor = {kSomeTensor, DType::kF32, tensor.shape, nans.data()};
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

INSTANTIATE_TEST_SUITE_P(Init, Errors, ::testing::ValuesIn(init_cases()), case_name);

}  // namespace
}  // namespace lmtrain::testing
