// A ByteStream gives the bytes of a file, decompressed where its name ends in .gz, .zst, .zstd,
// .bz2 or .xz. A file may hold several gzip members, zstd frames, bzip2 or xz streams, one after
// the other. Memory is constant. Opening and reading throw Error(kIo) when the operating system
// refuses. They throw Error(kData) with file and position for compressed data that is damaged or
// cut short, and for a compressed file without bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>

namespace lmtrain {

enum class Compression { kNone, kGzip, kZstd, kBzip2, kXz };

// Returns the compression that the last extension names, which must be in lower case: .GZ names
// none. Throws Error(kConfig) for .lz4, .zip and other compressions and archives (.tar) that
// are not read.
Compression compression_of(const std::filesystem::path& path);

// Returns the name of a file without the extension of its compression, if it has one. An extension
// that compression_of() refuses stays. `name` must have no folders: they would be lost.
std::filesystem::path without_compression(const std::filesystem::path& name);

class ByteStream {
 public:
  virtual ~ByteStream() = default;
  // Reads between 1 and `size` bytes to `out` and returns how many; 0 at the end. `size` must not
  // be 0.
  virtual size_t read(char* out, size_t size) = 0;
  // Returns how many bytes of the file were read; for a compressed file, compressed bytes.
  virtual uint64_t file_offset() const = 0;
};

// Opens the file and decompresses it if its name says so. Throws like compression_of(). The second
// form takes `compression` in place of the name's, where an index names it.
std::unique_ptr<ByteStream> open_bytes(const std::filesystem::path& path);
std::unique_ptr<ByteStream> open_bytes(const std::filesystem::path& path, Compression compression);

// Reads the first bytes of a text, up to buffer.size(), into `buffer`. Returns where in it the text
// begins, after a byte order mark, and ends; the two are equal for an empty text. Throws
// Error(kData) that names `path` for text in another encoding (foreign_text.h).
std::pair<size_t, size_t> read_first_text(ByteStream& bytes, std::string& buffer,
                                          const std::filesystem::path& path);

// Returns what foreign_data() (foreign_text.h) says of the file's first bytes on disk; "" where it
// knows nothing or the file cannot be read. It is for the message of a reader that failed.
std::string foreign_file(const std::filesystem::path& path);

// Returns a stream of the decompressed bytes of `file`, the open file at `path`. `compression` must
// not be kNone. Defined in arrow_codec.cpp.
std::unique_ptr<ByteStream> decompress(std::unique_ptr<ByteStream> file, Compression compression,
                                       const std::filesystem::path& path);

}  // namespace lmtrain
