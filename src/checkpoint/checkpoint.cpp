#include "checkpoint/checkpoint.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/files/examine.h"
#include "base/files/replace_folder.h"
#include "base/terminal/log.h"
#include "base/text.h"
#include "checkpoint/remove_checkpoint.h"
#include "checkpoint/retention.h"
#include "config/parse.h"
#include "device/torch_headers.h"
#include "formats/manifest.h"
#include "formats/safetensors.h"
#include "formats/tensor_files.h"
#include "model/hf_folder.h"
#include "model/round_weights.h"
#include "train/memory_plan.h"

namespace lmtrain {
namespace {

namespace fs = std::filesystem;

std::vector<TensorToWrite> optimizer_tensors(const std::vector<OptimizerBuffer>& buffers) {
  std::vector<TensorToWrite> tensors;
  tensors.reserve(buffers.size());
  for (const OptimizerBuffer& buffer : buffers) {
    tensors.push_back(
        {buffer.name, DType::kF32, buffer.values.sizes().vec(), buffer.values.data_ptr<float>()});
  }
  return tensors;
}

// Beside weights in bf16 lie the fp32 masters, under this prefix, in the optimizer's file.
constexpr const char* kMasterPrefix = "master.";

uint64_t snapshot_bytes(const CheckpointSnapshot& snapshot, CheckpointDType dtype) {
  const auto masters = static_cast<int64_t>(snapshot.master.nbytes());
  uint64_t bytes =
      kSmallFilesOfCheckpoint + static_cast<uint64_t>(stored_weight_bytes(masters, dtype));
  for (const OptimizerBuffer& buffer : snapshot.buffers) bytes += buffer.values.nbytes();
  return bytes;
}

// All files of a checkpoint of the run with the id `run`, synced, the manifest last.
void write_files(const fs::path& folder, const std::string& run, const CheckpointTexts& texts,
                 const ParameterLayout& layout, const CheckpointSnapshot& snapshot,
                 CheckpointDType dtype) {
  uint64_t tokenizer_bytes = 0;
  for (const TokenizerFile& file : texts.tokenizer) tokenizer_bytes += file.bytes.size();
  require_free_space(folder, tokenizer_bytes + snapshot_bytes(snapshot, dtype), "a checkpoint");

  TrainingState state = snapshot.state;
  state.run = run;
  Manifest manifest{state.step, state.fingerprint, str("lmtrain ", LMTRAIN_VERSION), {}};
  const auto add_file = [&](const std::string& name,
                            const std::function<void(FileWriter&)>& write) {
    FileWriter writer(folder / name);
    write(writer);
    writer.finish();
    manifest.files[name] = {writer.size(), writer.crc()};
  };
  const auto add_text = [&](const std::string& name, const std::string& text) {
    add_file(name, [&](FileWriter& writer) { writer.write(text); });
  };
  const bool rounds = dtype == CheckpointDType::kBf16;
  add_file(kModelFile, [&](FileWriter& writer) {
    const at::Tensor weights =
        rounds ? rounded_weights(snapshot.master, DType::kBF16, kModelFile) : snapshot.master;
    write_safetensors(writer, hf_tensors(layout, weights), {{"format", "pt"}});
  });
  add_file(kOptimizerFile, [&](FileWriter& writer) {
    std::vector<TensorToWrite> tensors = optimizer_tensors(snapshot.buffers);
    if (rounds) {
      for (TensorToWrite& tensor : hf_tensors(layout, snapshot.master)) {
        tensor.name.insert(0, kMasterPrefix);
        tensors.push_back(std::move(tensor));
      }
    }
    write_safetensors(writer, std::move(tensors), {});
  });
  add_text("config.json", texts.hf_config);
  add_text("generation_config.json", texts.generation_config);
  for (const TokenizerFile& file : texts.tokenizer) add_text(file.name, file.bytes);
  add_text(kStateFile, state_to_text(state));
  write_manifest(folder, manifest);
}

// Does nothing where the weights are the masters.
void load_masters(const fs::path& folder, const TensorFiles& weights, Parameters& parameters) {
  const std::vector<ParameterSpec>& specs = parameters.layout().parameters();
  if (weights.at(specs.front().name).dtype == DType::kF32) return;
  const ReadBuffer read = optimizer_reader(folder);
  for (const ParameterSpec& spec : specs) {
    at::Tensor to = parameters.master_view(spec);
    to.copy_(read({kMasterPrefix + spec.name, to}));
  }
  parameters.refresh_working();
}

// The id of the run that a checkpoint says it is of; empty where it says none. A state that cannot
// be read says none: who needs it will say what is wrong with it.
std::string run_of_checkpoint(const fs::path& folder) {
  const fs::path file = folder / kStateFile;
  try {
    return is_there(file) ? parse_state(read_file(file), file.string()).run : "";
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::kIo) throw;
    return "";
  }
}

// A tokenizer without the piece gives -1.
nlohmann::ordered_json id_or_null(int32_t id) {
  return id < 0 ? nlohmann::ordered_json(nullptr) : nlohmann::ordered_json(id);
}

// The tokenizer's own files, and tokenizer_config.json where it is none of them.
std::vector<TokenizerFile> tokenizer_files(const Config& config, const Tokenizer& tokenizer) {
  std::vector<TokenizerFile> files = tokenizer.files();
  const bool has_config = std::any_of(files.begin(), files.end(), [](const TokenizerFile& file) {
    return file.name == Tokenizer::kTokenizerConfig;
  });
  if (!has_config) {
    files.push_back(
        {std::string(Tokenizer::kTokenizerConfig),
         tokenizer.hf_tokenizer_config(config.tokenizer.add_bos, config.sequence.max_length)});
  }
  return files;
}

}  // namespace

CheckpointTexts checkpoint_texts(const Config& config, const Tokenizer& tokenizer) {
  const nlohmann::ordered_json generation = {{"_from_model_config", true},
                                             {"bos_token_id", id_or_null(tokenizer.bos_id())},
                                             {"eos_token_id", id_or_null(tokenizer.eos_id())}};
  return {hf_model_config_json(config.model, *config.model.vocab_size, config.sequence.max_length,
                               tokenizer.bos_id(), tokenizer.eos_id(), tokenizer.pad_id(),
                               config.checkpoint.dtype)
                  .dump(2) +
              "\n",
          generation.dump(2) + "\n", tokenizer_files(config, tokenizer)};
}

void write_checkpoint(const RunFolder& run, const CheckpointTexts& texts,
                      const ParameterLayout& layout, const CheckpointSnapshot& snapshot,
                      const CheckpointConfig& config) {
  const int64_t step = snapshot.state.step;
  const fs::path unfinished = run.unfinished_checkpoint(step);
  run.require_there();
  remove_tree(unfinished);
  lmtrain::create_directories(unfinished);
  try {
    write_files(unfinished, run.identity().id, texts, layout, snapshot, config.dtype);
  } catch (...) {
    std::error_code ignored;  // where the disk is full, the half-written files are in the way
    fs::remove_all(unfinished, ignored);
    throw;
  }

  // A checkpoint can be there already: a damaged one, one of a future that a resume from an older
  // one has left, or one of this step that is published again (must_save_again).
  replace_folder(unfinished, run.checkpoint(step));
  remove_old_checkpoints(run, snapshot.state, config);
}

TrainingState load_checkpoint(const fs::path& folder, Parameters& parameters) {
  TrainingState state = read_state(folder);
  const TensorFiles weights(folder);
  load_weights(weights, parameters);
  load_masters(folder, weights, parameters);
  return state;
}

TrainingState read_state(const fs::path& folder) {
  const fs::path file = folder / kStateFile;
  return parse_state(read_file(file), file.string());
}

ReadBuffer optimizer_reader(const fs::path& folder) {
  const auto file = std::make_shared<SafetensorsFile>(folder / kOptimizerFile);
  return [file](const OptimizerBuffer& buffer) {
    const TensorView& view = file->at(buffer.name);
    if (view.dtype != DType::kF32 || view.shape != buffer.values.sizes().vec()) {
      throw Error(ErrorKind::kCheckpoint, str(file->path().string(), ": tensor ", buffer.name,
                                              " does not have the shape and dtype of this model"));
    }
    at::Tensor stored = at::empty(view.shape, at::kFloat);
    std::memcpy(stored.data_ptr(), view.bytes.data(), view.bytes.size());
    return stored;
  };
}

bool is_checkpoint_folder(const fs::path& folder) {
  return is_there(folder / kManifestFile) || is_there(folder / kStateFile) ||
         is_there(folder / kOptimizerFile);
}

void verify_checkpoint(const RunFolder& run, int64_t step, bool skip_training_state) {
  const fs::path folder = run.checkpoint(step);
  const Manifest manifest = verify_checkpoint_files(folder, skip_training_state);
  if (manifest.step == step) return;
  throw Error(ErrorKind::kCheckpoint,
              str(folder.string(), ": its manifest is of step ", manifest.step,
                  ", so the folder was renamed; its name is ", step_name(manifest.step)));
}

void require_own_checkpoint(const RunFolder& run, int64_t step) {
  const std::string& own = run.identity().id;
  const fs::path folder = run.checkpoint(step);
  const std::string theirs = run_of_checkpoint(folder);
  if (own.empty() || theirs.empty() || theirs == own) return;
  throw Error(ErrorKind::kCheckpoint,
              str(folder.string(), " is a checkpoint of the run ", theirs, ", and the run in ",
                  run.path().string(), " is ", own,
                  "; move the checkpoint out of the folder, and the run goes on from its own; or "
                  "begin a run with its weights by init_from"));
}

std::optional<int64_t> newest_valid_checkpoint(const RunFolder& run, bool skip_training_state) {
  std::string first_problem;
  std::vector<int64_t> steps = run.checkpoint_steps();
  for (size_t i = 0; i < steps.size();) {
    try {
      verify_checkpoint(run, steps[i], skip_training_state);
    } catch (const Error& error) {
      // A process that trains may have removed it, and has published a newer one before.
      std::vector<int64_t> now = run.checkpoint_steps();
      if (!now.empty() && now.front() > steps.front()) {
        steps = std::move(now);
        i = 0;
        first_problem.clear();
        continue;
      }
      if (error.kind() != ErrorKind::kCheckpoint) throw;
      log_warning(str("damaged checkpoint passed over: ", error.what()));
      if (first_problem.empty()) first_problem = error.what();
      ++i;
      continue;
    }
    require_own_checkpoint(run, steps[i]);
    return steps[i];
  }
  if (first_problem.empty()) return std::nullopt;
  throw Error(ErrorKind::kCheckpoint, str("every checkpoint in ", run.checkpoints().string(),
                                          " is damaged; the newest: ", first_problem,
                                          "; restore one from a backup, or start a new run"));
}

void require_same_data(const fs::path& checkpoint, const std::string& fingerprint) {
  const fs::path file = checkpoint / kManifestFile;
  const Manifest manifest = parse_manifest(read_file(file), file.string());
  if (manifest.fingerprint == fingerprint) return;
  throw Error(ErrorKind::kData,
              str("the data of the run has changed: ", checkpoint.string(), " was trained on ",
                  manifest.fingerprint, ", the files of data.train now give ", fingerprint,
                  "; restore them, or start a new run with init_from"));
}

}  // namespace lmtrain
