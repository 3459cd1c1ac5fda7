// A GGUF file, version 3 (ggml-org/ggml, docs/gguf.md), holds a model for llama.cpp: a header,
// metadata by key, a description of each tensor, and the bytes of the tensors, each aligned to 32
// bytes. Numbers are little-endian. These functions only write.
#pragma once

#include <cstdint>
#include <functional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"

namespace lmtrain {

inline constexpr uint32_t kGgufVersion = 3;
inline constexpr uint32_t kGgufAlignment = 32;  // bytes
inline constexpr int64_t kQ8Block = 32;         // elements that share a scale in Q8_0

// The types of ggml that are written, with its numbers. Q8_0 has blocks of 34 bytes: a scale in
// fp16, then 32 signed bytes.
enum class GgufType : uint32_t { kF32 = 0, kF16 = 1, kQ80 = 8, kBF16 = 30 };

struct GgufTensor {
  std::string name;
  GgufType type = GgufType::kF32;
  std::vector<int64_t> shape;  // rows first, as in transformers; the file has it reversed
};

// Returns the size of a tensor's elements in bytes. Throws Error(kInternal) where Q8_0 has rows
// that are no whole number of blocks.
uint64_t gguf_tensor_bytes(const GgufTensor& tensor);

// Returns `values`, a whole number of blocks, in Q8_0, with the bits of ggml's reference
// (quantize_row_q8_0_ref). Throws Error(kNumeric) that names `tensor` for a value that is not
// finite, or too large for a scale in fp16.
std::string q8_0_bytes(std::span<const float> values, std::string_view tensor);

// The metadata of a file, in the order in which it is added. Each add_...() throws Error(kInternal)
// for a key that is there already, or has other characters than a to z, 0 to 9, "_" and ".".
class GgufMetadata {
 public:
  void add_integer(std::string_view key, uint32_t value);
  void add_number(std::string_view key, float value);
  void add_flag(std::string_view key, bool value);
  void add_text(std::string_view key, std::string_view value);
  void add_texts(std::string_view key, std::span<const std::string> values);
  void add_numbers(std::string_view key, std::span<const float> values);
  void add_integers(std::string_view key, std::span<const int32_t> values);

  uint64_t size() const { return keys_.size(); }
  const std::string& bytes() const { return bytes_; }

 private:
  void begin(std::string_view key, uint32_t type);
  void begin_array(std::string_view key, uint32_t type, size_t size);

  std::set<std::string, std::less<>> keys_;
  std::string bytes_;
};

// Writes a whole file through `writer`, which must be new; the caller calls writer.finish(). It
// calls `data` once for each tensor, in their order, for the tensor's bytes, and holds one tensor
// in memory. Throws what `data` throws, Error(kInternal) for bytes of another size and for a name
// that is there twice, and Error(kIo).
using GgufData = std::function<std::string(const GgufTensor& tensor)>;
void write_gguf(FileWriter& writer, const GgufMetadata& metadata,
                const std::vector<GgufTensor>& tensors, const GgufData& data);

}  // namespace lmtrain
