// Exports a model for other programs: as a folder of Hugging Face transformers, as a TorchScript
// file, or as a GGUF file for llama.cpp.
//
// Each is written under a temporary name, and published at `to` when it is whole; after an error
// `to` is as it was. The functions throw the errors of located_model_config and located_max_length
// (checkpoint/model_location.h), TensorFiles (formats/tensor_files.h), load_weights
// (model/hf_folder.h) and rounded_weights (model/round_weights.h), and:
//   Error(kUsage)  `to` is not as the function requires; also the error of
//                  require_no_checkpoint_path (checkpoint/run_folder.h)
//   Error(kIo)     a file cannot be read or written
//   StopRequested  on a signal
#pragma once

#include <cstdint>
#include <filesystem>

#include "checkpoint/model_location.h"
#include "formats/gguf.h"
#include "formats/safetensors.h"

namespace lmtrain {

struct ModelExport {
  int64_t parameters = 0;
  size_t files = 0;    // files with weights
  uint64_t bytes = 0;  // of the weights
};

// The default limit of transformers 4 on the bytes of a file's tensors.
inline constexpr uint64_t kDefaultShardBytes = 5'000'000'000;

// Writes a folder that transformers opens as it is, and that eval, generate and init_from read: the
// files of write_files_beside_weights(), the weights in `dtype` (kF32, kBF16 or kF16;
// write_weights()), and the model card. A file has at most `shard_bytes` bytes of tensors. Logs a
// note if the model has no tokenizer. `to` must be missing or an empty folder.
ModelExport export_hf(const ModelLocation& location, const std::filesystem::path& to, DType dtype,
                      uint64_t shard_bytes);

// Writes a TorchScript file as model/torchscript.h says. `to` must be missing.
ModelExport export_torchscript(const ModelLocation& location, const std::filesystem::path& to,
                               DType dtype);

// Writes one GGUF file with weights, settings and tokenizer, as checkpoint/gguf_model.h and
// tokenizer/gguf_vocabulary.h say; no chat template. Matrices have `type`, or fp16 if their rows
// are no whole blocks of Q8_0, which a note says; vectors are fp32. Other notes say how llama.cpp
// encodes text differently. `to` must be missing. Also throws Error(kUsage) for a model without a
// tokenizer, and the errors of gguf_vocabulary(), add_gguf_model() and q8_0_bytes().
ModelExport export_gguf(const ModelLocation& location, const std::filesystem::path& to,
                        GgufType type);

}  // namespace lmtrain
