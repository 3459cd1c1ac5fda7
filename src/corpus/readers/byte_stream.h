// The bytes of a file, decompressed where its name ends in .gz, .zst, .zstd or .bz2: any number of
// gzip members, zstd frames or bzip2 streams, one after the other. Constant memory. Error(kIo) when
// the operating system refuses, Error(kData) with file and position when compressed data is damaged
// or cut short.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>

namespace lmtrain {

enum class Compression { kNone, kGzip, kZstd, kBzip2 };

// By the last extension. Error(kConfig) for .xz, .lz4, .zip and their like, which are not read.
Compression compression_of(const std::filesystem::path& path);

// A name without the ending of its compression, if it has one.
std::filesystem::path without_compression(const std::filesystem::path& name);

class ByteStream {
 public:
  virtual ~ByteStream() = default;
  // Reads between 1 and `size` bytes to `out` and returns how many; 0 at the end. Requires size >
  // 0.
  virtual size_t read(char* out, size_t size) = 0;
  // How many bytes of the file were read; of a compressed file, compressed bytes.
  virtual uint64_t file_offset() const = 0;
};

std::unique_ptr<ByteStream> open_bytes(const std::filesystem::path& path);

// `file` is what lies at `path`, to be decompressed (arrow_codec.cpp).
std::unique_ptr<ByteStream> decompress(std::unique_ptr<ByteStream> file, Compression compression,
                                       const std::filesystem::path& path);

}  // namespace lmtrain
