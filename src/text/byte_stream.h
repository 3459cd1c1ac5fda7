// A ByteStream gives the bytes of a file, decompressed where its name ends in .gz, .zst, .zstd,
// .bz2 or .xz. A file may hold any number of gzip members, zstd frames, bzip2 or xz streams, one
// after the other. Memory is constant. Opening and reading throw Error(kIo) when the operating
// system refuses, and Error(kData) with file and position when compressed data is damaged or cut
// short, or when a compressed file has no bytes.
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

// Returns the name of a file without the extension of its compression, if it has one; an extension
// that compression_of() refuses stays. Requires a name without folders, which are lost where an
// extension is taken off.
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
// form decompresses what another file says.
std::unique_ptr<ByteStream> open_bytes(const std::filesystem::path& path);
std::unique_ptr<ByteStream> open_bytes(const std::filesystem::path& path, Compression compression);

// Fills `buffer` with the first bytes of the text at `path`, and returns where in it the text
// begins and ends: a byte order mark is left out. A text that is over gives an empty range. Throws
// Error(kData) for text in another encoding (foreign_text.h).
std::pair<size_t, size_t> read_first_text(ByteStream& bytes, std::string& buffer,
                                          const std::filesystem::path& path);

// Returns what the file is, by its first bytes as they lie on disk, where it is something else than
// its name says and foreign_data() (foreign_text.h) knows it; else an empty string, also where the
// file cannot be read. It is for the messages of those that could not read the file.
std::string foreign_file(const std::filesystem::path& path);

// Returns a stream of the decompressed bytes of `file`, the open file at `path`. `compression` must
// not be kNone. Defined in arrow_codec.cpp.
std::unique_ptr<ByteStream> decompress(std::unique_ptr<ByteStream> file, Compression compression,
                                       const std::filesystem::path& path);

}  // namespace lmtrain
