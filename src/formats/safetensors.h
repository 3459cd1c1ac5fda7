// A safetensors file (docs/formats/safetensors.md; huggingface/safetensors, tensor.rs) has 8 bytes
// with the little-endian header size, a JSON header, and tensor bytes without holes or overlaps.
//
// The reader maps the file and accepts only what the rules allow. For anything else it throws
// Error(kData) that names the file and the tensor or byte offset. Its memory grows with the header,
// not with the tensors.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/file.h"

namespace lmtrain {

inline constexpr size_t kSafetensorsLengthBytes = 8;  // the number in front: the header size
inline constexpr uint64_t kSafetensorsLargestHeader = 100'000'000;
inline constexpr const char* kSafetensorsMetadataKey = "__metadata__";

// Returns the header size in bytes if `head`, the first bytes of a file, begins like a safetensors
// file: eight bytes with the size, and a "{". Returns nothing for other bytes, and for fewer than
// 10. The size is not checked: the caller compares it with kSafetensorsLargestHeader and with the
// file.
std::optional<uint64_t> safetensors_header_size(std::string_view head);

// In the order of the format, by ascending size. A file has the tensors of the last dtype first.
enum class DType { kBool, kU8, kI8, kI16, kU16, kF16, kBF16, kI32, kU32, kF32, kF64, kI64, kU64 };
std::string_view dtype_name(DType dtype);  // "F32"
size_t dtype_size(DType dtype);            // bytes

struct TensorView {
  DType dtype = DType::kF32;
  std::vector<int64_t> shape;
  std::string_view bytes;  // into the mapped file; row-major, little-endian, maybe unaligned
};

class SafetensorsFile {
 public:
  // Maps the file and reads its header. Throws Error(kData) as above, and Error(kIo). The views are
  // valid as long as this object.
  explicit SafetensorsFile(const std::filesystem::path& path);

  const std::map<std::string, TensorView>& tensors() const { return tensors_; }
  const std::map<std::string, std::string>& metadata() const { return metadata_; }
  // Throws Error(kData) that names file and tensor when it is missing.
  const TensorView& at(const std::string& name) const;
  const std::filesystem::path& path() const { return file_.path(); }

 private:
  MappedFile file_;
  std::map<std::string, std::string> metadata_;
  std::map<std::string, TensorView> tensors_;
};

// Returns the tensors of `file`, the bytes of a whole file, by name; their views point into `file`.
// Replaces `metadata` by the entries of __metadata__. Throws Error(kData) as above; `origin` names
// the file in messages.
std::map<std::string, TensorView> parse_safetensors(std::string_view file,
                                                    const std::string& origin,
                                                    std::map<std::string, std::string>& metadata);

// A TensorToWrite describes a tensor of a file to come. `data` holds its elements, row-major, and
// must stay valid until they are written.
struct TensorToWrite {
  std::string name;
  DType dtype = DType::kF32;
  std::vector<int64_t> shape;
  const void* data = nullptr;
};

// The layout of a file to come: where each tensor lies. It depends only on names, shapes, dtypes
// and metadata, so processes that write one file together compute the same layout without each
// other's data.
class SafetensorsLayout {
 public:
  // The `data` of the tensors is not read. Throws the errors of write_safetensors; `file` names the
  // file in them.
  SafetensorsLayout(std::vector<TensorToWrite> tensors,
                    const std::map<std::string, std::string>& metadata,
                    const std::filesystem::path& file);

  // The eight bytes in front, and the header that follows them.
  std::string_view length() const;
  const std::string& header() const { return header_; }
  // The tensors, in the order of the file.
  const std::vector<TensorToWrite>& tensors() const { return tensors_; }
  // Returns the byte of the file at which a tensor begins. Throws Error(kInternal) where the file
  // has no tensor of this name, dtype and shape.
  uint64_t offset_of(const TensorToWrite& tensor) const;
  // Returns the size of a tensor's elements in bytes. Throws Error(kInternal) for a shape with a
  // negative size, or whose bytes overflow.
  static uint64_t size_of(const TensorToWrite& tensor);
  uint64_t file_size() const { return file_size_; }

 private:
  std::filesystem::path file_;
  std::vector<TensorToWrite> tensors_;
  std::map<std::string, std::pair<size_t, uint64_t>> places_;  // by name: its index, its offset
  std::string header_;
  uint64_t header_size_ = 0, file_size_ = 0;
};

// Writes header and tensors (from the last dtype to the first, then by name) through `writer`,
// which must be new; the caller calls writer.finish(). Throws Error(kInternal) for what the format
// cannot hold: a name twice, a negative size, text that is not UTF-8, a header above the largest;
// and Error(kIo).
void write_safetensors(FileWriter& writer, std::vector<TensorToWrite> tensors,
                       const std::map<std::string, std::string>& metadata);

}  // namespace lmtrain
