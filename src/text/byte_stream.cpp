#include "text/byte_stream.h"

#include <algorithm>
#include <array>
#include <string>

#include "base/error.h"
#include "base/foreign_text.h"
#include "base/read_file.h"
#include "base/text.h"
#include "base/utf8.h"

namespace lmtrain {
namespace {

namespace fs = std::filesystem;

class PlainStream : public ByteStream {
 public:
  explicit PlainStream(const fs::path& path) : file_(path) {}

  size_t read(char* out, size_t size) override {
    const size_t got = file_.read(out, size);
    offset_ += got;
    return got;
  }
  uint64_t file_offset() const override { return offset_; }

 private:
  FileReader file_;
  uint64_t offset_ = 0;
};

Compression compression_named(std::string_view extension) {
  if (extension == ".gz") return Compression::kGzip;
  if (extension == ".zst" || extension == ".zstd") return Compression::kZstd;
  if (extension == ".bz2") return Compression::kBzip2;
  if (extension == ".xz") return Compression::kXz;
  return Compression::kNone;
}

}  // namespace

Compression compression_of(const fs::path& path) {
  constexpr std::array<std::string_view, 7> kRefused = {".lzma", ".lz4", ".zip", ".7z",
                                                        ".rar",  ".br",  ".tar"};
  const std::string extension = path.extension().native();
  if (const Compression known = compression_named(extension); known != Compression::kNone)
    return known;
  if (std::find(kRefused.begin(), kRefused.end(), extension) != kRefused.end()) {
    throw Error(ErrorKind::kConfig,
                str(shown(path), ": ", extension,
                    " files are not read; unpack it, or compress it as .gz, .zst, .bz2 or .xz"));
  }
  return Compression::kNone;
}

fs::path without_compression(const fs::path& name) {
  return compression_named(name.extension().native()) == Compression::kNone ? name : name.stem();
}

std::string foreign_file(const fs::path& path) {
  try {
    FileReader file(path);
    std::string head(kForeignHeadBytes, '\0');
    head.resize(read_fully(file, head.data(), head.size()));
    return foreign_data(head);
  } catch (const Error&) {
    return {};
  }
}

std::unique_ptr<ByteStream> open_bytes(const fs::path& path) {
  return open_bytes(path, compression_of(path));
}

std::unique_ptr<ByteStream> open_bytes(const fs::path& path, Compression compression) {
  auto file = std::make_unique<PlainStream>(path);
  if (compression == Compression::kNone) return file;
  return decompress(std::move(file), compression, path);
}

std::pair<size_t, size_t> read_first_text(ByteStream& bytes, std::string& buffer,
                                          const fs::path& path) {
  size_t size = bytes.read(buffer.data(), buffer.size());
  // A byte order mark may come in parts, and alone.
  while (size > 0 && size <= kByteOrderMark.size()) {
    const size_t got = bytes.read(buffer.data() + size, buffer.size() - size);
    if (got == 0) break;
    size += got;
  }
  const std::string_view head(buffer.data(), size);
  if (const std::string other = foreign_text(head); !other.empty())
    throw Error(ErrorKind::kData, str(shown(path), ": is ", other));
  return {head.starts_with(kByteOrderMark) ? kByteOrderMark.size() : 0, size};
}

}  // namespace lmtrain
