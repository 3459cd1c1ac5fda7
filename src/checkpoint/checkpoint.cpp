#include "checkpoint/checkpoint.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/examine.h"
#include "base/log.h"
#include "base/publish.h"
#include "base/text.h"
#include "checkpoint/retention.h"
#include "config/parse.h"
#include "device/torch_headers.h"
#include "formats/manifest.h"
#include "formats/safetensors.h"
#include "formats/tensor_files.h"
#include "model/hf_folder.h"
#include "model/round_weights.h"

namespace lmtrain {
namespace {

namespace fs = std::filesystem;

// If the weights are in bf16, the optimizer's file holds the fp32 masters under this prefix.
constexpr const char* kMasterPrefix = "master.";

CheckpointFile model_file() { return {kModelFile, {{"format", "pt"}}, {}}; }
CheckpointFile optimizer_file() { return {kOptimizerFile, {}, {}}; }

void append(std::vector<TensorToWrite>& to, std::vector<TensorToWrite> tensors,
            const std::string& prefix = "") {
  for (TensorToWrite& tensor : tensors) {
    tensor.name.insert(0, prefix);
    to.push_back(std::move(tensor));
  }
}

// Describes all tensors of the model, in one dtype.
std::vector<TensorToWrite> all_weights(const ParameterLayout& layout, DType dtype) {
  std::vector<TensorToWrite> tensors;
  for (const ParameterSpec& spec : layout.parameters())
    tensors.push_back({spec.name, dtype, spec.shape, nullptr});
  return tensors;
}

// Writes and syncs all files of a checkpoint of the run with the id `run`, the manifest last.
void write_files(const fs::path& folder, const std::string& run, const CheckpointTexts& texts,
                 TrainingState state, uint64_t tensor_bytes, const WriteTensorFiles& write) {
  uint64_t bytes = kSmallFilesOfCheckpoint + tensor_bytes;
  for (const TokenizerFile& file : texts.tokenizer) bytes += file.bytes.size();
  require_free_space(folder, bytes, "a checkpoint");

  state.run = run;
  Manifest manifest{state.step, state.fingerprint, str("lmtrain ", LMTRAIN_VERSION), write(folder)};
  const auto add_text = [&](const std::string& name, const std::string& text) {
    const FileSum sum = write_file_synced(folder / name, text);
    manifest.files[name] = {sum.size, sum.crc};
  };
  add_text("config.json", texts.hf_config);
  add_text("generation_config.json", texts.generation_config);
  for (const TokenizerFile& file : texts.tokenizer) add_text(file.name, file.bytes);
  add_text(kStateFile, state_to_text(state));
  write_manifest(folder, manifest);
}

// Reads the fp32 masters from the optimizer's file, unless the weights are in fp32.
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

// Returns the run id in a checkpoint's state; empty if it has none, or the state is damaged: other
// functions report the damage.
std::string run_of_checkpoint(const fs::path& folder) {
  try {
    return is_there(folder / kStateFile) ? read_state(folder).run : "";
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::kIo) throw;
    return "";
  }
}

// A tokenizer without the piece gives -1.
nlohmann::ordered_json id_or_null(int32_t id) {
  return id < 0 ? nlohmann::ordered_json(nullptr) : nlohmann::ordered_json(id);
}

// Returns the tokenizer's own files, and tokenizer_config.json. For a sentencepiece model that file
// is made from the settings of the run.
std::vector<TokenizerFile> tokenizer_files(const Config& config, const Tokenizer& tokenizer) {
  std::vector<TokenizerFile> files = tokenizer.files();
  const auto found = std::find_if(files.begin(), files.end(), [](const TokenizerFile& file) {
    return file.name == Tokenizer::kTokenizerConfig;
  });
  if (found != files.end() && tokenizer.is_json()) return files;
  if (found != files.end()) files.erase(found);
  files.push_back({std::string(Tokenizer::kTokenizerConfig),
                   tokenizer.hf_tokenizer_config(config.tokenizer.add_bos.value_or(true),
                                                 config.sequence.max_length)});
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

void for_each_tensor_file(const ParameterLayout& layout, const CheckpointSnapshot& snapshot,
                          CheckpointDType dtype,
                          const std::function<void(const CheckpointFile& file)>& f) {
  const bool rounds = dtype == CheckpointDType::kBf16;
  {
    CheckpointFile file = model_file();
    std::vector<at::Tensor> held;
    for (const MasterRange& range : snapshot.masters) {
      held.push_back(rounds ? rounded_weights(range.values, DType::kBF16, kModelFile)
                            : range.values);
      append(file.tensors, hf_tensors(layout, held.back(), range.first));
    }
    f(file);
  }
  CheckpointFile file = optimizer_file();
  for (const OptimizerBuffer& buffer : snapshot.buffers) {
    file.tensors.push_back({buffer.name, DType::kF32, buffer.values.sizes().vec(),
                            buffer.values.const_data_ptr<float>()});
  }
  for (const MasterRange& range : snapshot.masters) {
    if (rounds) append(file.tensors, hf_tensors(layout, range.values, range.first), kMasterPrefix);
  }
  f(file);
}

std::vector<CheckpointFile> describe_tensor_files(const ParameterLayout& layout,
                                                  const std::vector<OptimizerBuffer>& buffers,
                                                  CheckpointDType dtype) {
  const bool rounds = dtype == CheckpointDType::kBf16;
  CheckpointFile model = model_file(), optimizer = optimizer_file();
  model.tensors = all_weights(layout, rounds ? DType::kBF16 : DType::kF32);
  for (const OptimizerBuffer& buffer : buffers)
    optimizer.tensors.push_back({buffer.name, DType::kF32, buffer.values.sizes().vec(), nullptr});
  if (rounds) append(optimizer.tensors, all_weights(layout, DType::kF32), kMasterPrefix);
  return {std::move(model), std::move(optimizer)};
}

void write_checkpoint(const RunFolder& run, const CheckpointTexts& texts,
                      const ParameterLayout& layout, const CheckpointSnapshot& snapshot,
                      const CheckpointConfig& config) {
  uint64_t bytes = 0;
  for (const MasterRange& range : snapshot.masters) {
    const auto masters = static_cast<int64_t>(range.values.nbytes());
    bytes += static_cast<uint64_t>(stored_weight_bytes(masters, config.dtype));
  }
  for (const OptimizerBuffer& buffer : snapshot.buffers) bytes += buffer.values.nbytes();
  write_checkpoint(run, run.unfinished_checkpoint(snapshot.state.step), texts, snapshot.state,
                   config, bytes, [&](const fs::path& folder) {
                     std::map<std::string, ManifestEntry> written;
                     for_each_tensor_file(layout, snapshot, config.dtype,
                                          [&](const CheckpointFile& file) {
                                            FileWriter writer(folder / file.name);
                                            write_safetensors(writer, file.tensors, file.metadata);
                                            writer.finish();
                                            written[file.name] = {writer.size(), writer.crc()};
                                          });
                     return written;
                   });
}

void write_checkpoint(const RunFolder& run, const fs::path& unfinished,
                      const CheckpointTexts& texts, const TrainingState& state,
                      const CheckpointConfig& config, uint64_t tensor_bytes,
                      const WriteTensorFiles& write) {
  run.require_there();
  remove_tree(unfinished);
  lmtrain::create_directories(unfinished);
  try {
    write_files(unfinished, run.identity().id, texts, state, tensor_bytes, write);
  } catch (...) {
    std::error_code ignored;  // on a full disk the half-written files take room
    fs::remove_all(unfinished, ignored);
    throw;
  }

  // A checkpoint can be there already: a damaged one, one of a future that a resume has left, or
  // one of this step that must be saved again (must_save_again).
  replace_folder(unfinished, run.checkpoint(state.step));
  remove_old_checkpoints(run, state, config);
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

bool is_damage(const Error& error) {
  return error.kind() == ErrorKind::kCheckpoint || error.kind() == ErrorKind::kUsage;
}

void warn_of_damage(const Error& error) {
  log_warning(str("damaged checkpoint passed over: ", error.what()));
}

void require_checkpoint_of_step(const RunFolder& run, int64_t step) {
  const std::vector<int64_t> steps = run.checkpoint_steps();
  if (std::find(steps.begin(), steps.end(), step) != steps.end()) return;
  std::vector<std::string> names;
  for (const int64_t there : steps) names.insert(names.begin(), std::to_string(there));
  const std::string others =
      steps.empty() ? "it has none" : str("its checkpoints are of ", join(names, ", "));
  throw Error(ErrorKind::kUsage, str("the run in ", run.path().string(),
                                     " has no checkpoint of step ", step, "; ", others));
}

std::optional<int64_t> newest_valid_checkpoint(const RunFolder& run, bool skip_training_state,
                                               const std::vector<int64_t>& named) {
  std::string first_problem;
  std::vector<int64_t> steps = run.checkpoint_steps();
  for (size_t i = 0; i < steps.size();) {
    try {
      verify_checkpoint(run, steps[i], skip_training_state);
    } catch (const Error& error) {
      // The process that trains may have removed it, after it has published a newer one.
      std::vector<int64_t> now = run.checkpoint_steps();
      if (!now.empty() && now.front() > steps.front()) {
        steps = std::move(now);
        i = 0;
        first_problem.clear();
        continue;
      }
      if (!is_damage(error)) throw;
      if (std::find(named.begin(), named.end(), steps[i]) == named.end()) warn_of_damage(error);
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

}  // namespace lmtrain
