// Writes the weights of a model folder as transformers does: under HF names, in one safetensors
// file or, above a limit, in several files with an index (formats/tensor_files.h).
#pragma once

#include <cstdint>
#include <filesystem>

#include "base/stop.h"
#include "formats/safetensors.h"
#include "model/parameters.h"

namespace lmtrain {

struct WeightsWritten {
  size_t files = 0;
  uint64_t bytes = 0;  // of the tensors
};

// Returns the bytes of all tensors in `dtype`: kF32, kBF16 or kF16.
uint64_t weight_bytes(const ParameterLayout& layout, DType dtype);

// Writes the fp32 masters, as rounded_weights() gives them in `dtype`, to files in the existing
// `folder`, and syncs them. Leaves out a tied head, as transformers does. The tensors of a file
// have at most `shard_bytes` bytes together, unless the file has only one. Overwrites files that
// are there. Needs host memory for the tensors of one file if it rounds, and for all masters if
// they are on a GPU. Calls `poll` before each file of tensors. Throws the exceptions of `poll`, the
// errors of rounded_weights(), and Error(kIo); files that it has written stay.
WeightsWritten write_weights(const std::filesystem::path& folder, const Parameters& parameters,
                             DType dtype, uint64_t shard_bytes, const Poll& poll);

}  // namespace lmtrain
