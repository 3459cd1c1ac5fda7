#include "formats/gguf.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "base/bytes.h"
#include "base/error.h"
#include "base/text.h"

namespace lmtrain {
namespace {

static_assert(std::endian::native == std::endian::little, "numbers are written as they lie");

// gguf_metadata_value_type
constexpr uint32_t kUint32 = 4;
constexpr uint32_t kInt32 = 5;
constexpr uint32_t kFloat32 = 6;
constexpr uint32_t kBool = 7;
constexpr uint32_t kString = 8;
constexpr uint32_t kArray = 9;

constexpr uint64_t kQ8BlockBytes = 2 + kQ8Block;
constexpr float kLargestHalf = 65504;

template <class T>
void append_number(std::string& bytes, T value) {
  bytes += object_bytes(value);
}

void append_text(std::string& bytes, std::string_view text) {
  append_number(bytes, static_cast<uint64_t>(text.size()));
  bytes += text;
}

uint64_t aligned(uint64_t size) {
  return (size + kGgufAlignment - 1) / kGgufAlignment * kGgufAlignment;
}

// The nearest number of fp16, the even one of two. `value` is neither negative nor beyond the
// largest.
uint16_t half_bits(float value) {
  constexpr float kSmallestNormal = 0x1p-14F;
  if (value < kSmallestNormal) return static_cast<uint16_t>(std::nearbyint(value * 0x1p24F));
  const auto bits = std::bit_cast<uint32_t>(value);
  const uint32_t rounded = bits + 0xFFFU + (bits >> 13 & 1U);
  return static_cast<uint16_t>((rounded - (112U << 23)) >> 13);
}

// Returns everything before the tensors' bytes, padded to the alignment.
std::string file_head(const GgufMetadata& metadata, const std::vector<GgufTensor>& tensors) {
  std::string head = "GGUF";
  append_number(head, kGgufVersion);
  append_number(head, static_cast<uint64_t>(tensors.size()));
  append_number(head, metadata.size());
  head += metadata.bytes();
  std::set<std::string> names;
  uint64_t offset = 0;
  for (const GgufTensor& tensor : tensors) {
    if (!names.insert(tensor.name).second)
      throw Error(ErrorKind::kInternal, str("GGUF: two tensors ", tensor.name));
    append_text(head, tensor.name);
    append_number(head, static_cast<uint32_t>(tensor.shape.size()));
    for (auto size = tensor.shape.rbegin(); size != tensor.shape.rend(); ++size)
      append_number(head, static_cast<uint64_t>(*size));
    append_number(head, static_cast<uint32_t>(tensor.type));
    append_number(head, offset);
    offset += aligned(gguf_tensor_bytes(tensor));
  }
  head.resize(aligned(head.size()), '\0');
  return head;
}

}  // namespace

uint64_t gguf_tensor_bytes(const GgufTensor& tensor) {
  uint64_t elements = 1;
  for (const int64_t size : tensor.shape) elements *= static_cast<uint64_t>(size);
  switch (tensor.type) {
    case GgufType::kF32:
      return elements * 4;
    case GgufType::kF16:
    case GgufType::kBF16:
      return elements * 2;
    case GgufType::kQ80:
      break;
  }
  if (tensor.shape.empty() || tensor.shape.back() % kQ8Block != 0)
    throw Error(ErrorKind::kInternal, str("GGUF: ", tensor.name, " has no whole blocks of Q8_0"));
  return elements / kQ8Block * kQ8BlockBytes;
}

std::string q8_0_bytes(std::span<const float> values, std::string_view tensor) {
  std::string bytes;
  bytes.reserve(values.size() / kQ8Block * kQ8BlockBytes);
  for (size_t first = 0; first < values.size(); first += kQ8Block) {
    const std::span<const float> block = values.subspan(first, kQ8Block);
    float largest = 0;
    bool is_finite = true;
    for (const float value : block) {
      largest = std::max(largest, std::fabs(value));
      is_finite = is_finite && std::isfinite(value);
    }
    const float scale = largest / 127;
    if (!is_finite || scale > kLargestHalf) {
      throw Error(ErrorKind::kNumeric,
                  str("tensor ", tensor, " holds ",
                      is_finite ? printed("%g", largest) : "a number that is not finite",
                      ", which has no form in q8_0; export in bf16 or fp32"));
    }
    append_number(bytes, half_bits(scale));
    // Like ggml, divides by the scale before it is rounded. A scale so small that it has no inverse
    // rounds to 0.
    float inverse = scale == 0 ? 0 : 1 / scale;
    if (!std::isfinite(inverse)) inverse = 0;
    for (const float value : block)
      bytes.push_back(static_cast<char>(static_cast<int8_t>(std::round(value * inverse))));
  }
  return bytes;
}

void GgufMetadata::begin(std::string_view key, uint32_t type) {
  const bool is_good = !key.empty() && std::all_of(key.begin(), key.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' || c == '.';
  });
  if (!is_good || !keys_.emplace(key).second)
    throw Error(ErrorKind::kInternal, str("GGUF: the key ", key, " is malformed or there already"));
  append_text(bytes_, key);
  append_number(bytes_, type);
}

void GgufMetadata::begin_array(std::string_view key, uint32_t type, size_t size) {
  begin(key, kArray);
  append_number(bytes_, type);
  append_number(bytes_, static_cast<uint64_t>(size));
}

void GgufMetadata::add_integer(std::string_view key, uint32_t value) {
  begin(key, kUint32);
  append_number(bytes_, value);
}

void GgufMetadata::add_number(std::string_view key, float value) {
  begin(key, kFloat32);
  append_number(bytes_, value);
}

void GgufMetadata::add_flag(std::string_view key, bool value) {
  begin(key, kBool);
  bytes_.push_back(value ? '\1' : '\0');
}

void GgufMetadata::add_text(std::string_view key, std::string_view value) {
  begin(key, kString);
  append_text(bytes_, value);
}

void GgufMetadata::add_texts(std::string_view key, std::span<const std::string> values) {
  begin_array(key, kString, values.size());
  for (const std::string& value : values) append_text(bytes_, value);
}

void GgufMetadata::add_numbers(std::string_view key, std::span<const float> values) {
  begin_array(key, kFloat32, values.size());
  for (const float value : values) append_number(bytes_, value);
}

void GgufMetadata::add_integers(std::string_view key, std::span<const int32_t> values) {
  begin_array(key, kInt32, values.size());
  for (const int32_t value : values) append_number(bytes_, value);
}

void write_gguf(FileWriter& writer, const GgufMetadata& metadata,
                const std::vector<GgufTensor>& tensors, const GgufData& data) {
  writer.write(file_head(metadata, tensors));
  for (const GgufTensor& tensor : tensors) {
    const std::string bytes = data(tensor);
    if (bytes.size() != gguf_tensor_bytes(tensor))
      throw Error(ErrorKind::kInternal, str("GGUF: ", tensor.name, " has ", bytes.size(),
                                            " bytes, not ", gguf_tensor_bytes(tensor)));
    writer.write(bytes);
    writer.write(std::string(aligned(bytes.size()) - bytes.size(), '\0'));
  }
}

}  // namespace lmtrain
