// Writes the weights of a model folder as transformers does: HF names, in one safetensors file or,
// above a limit, in several with an index (formats/tensor_files.h).
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

// Writes the masters, which are fp32, to files in `folder`, which must be there, and syncs them. In
// fp32 the bits are theirs; in bf16 and fp16 each number is rounded to the nearest, to even where
// two are as near. A tied head is left out, as transformers does. The tensors of a file have at
// most `shard_bytes` bytes, unless the file has only one. Files that are there are overwritten.
// Needs host memory for the tensors of one file where numbers are rounded, and for all masters
// where they are on a GPU. Calls `poll` before each file of tensors. Throws what `poll` throws;
// Error(kNumeric) that names the tensor where a number is finite and beyond the largest of `dtype`;
// Error(kIo). The files that it has written until then stay.
WeightsWritten write_weights(const std::filesystem::path& folder, const Parameters& parameters,
                             DType dtype, uint64_t shard_bytes, const Poll& poll);

}  // namespace lmtrain
