#include "corpus/byte_stream.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <string>

#include "base/error.h"
#include "base/text.h"

namespace lmtrain {
namespace {

namespace fs = std::filesystem;

class PlainStream : public ByteStream {
 public:
  explicit PlainStream(const fs::path& path)
      : path_(path), fd_(::open(path.c_str(), O_RDONLY | O_CLOEXEC)) {
    if (fd_ < 0) fail("open");
  }
  ~PlainStream() override { ::close(fd_); }
  PlainStream(const PlainStream&) = delete;
  PlainStream& operator=(const PlainStream&) = delete;

  size_t read(char* out, size_t size) override {
    ssize_t got = 0;
    do {
      got = ::read(fd_, out, size);
    } while (got < 0 && errno == EINTR);
    if (got < 0) fail("read");
    offset_ += static_cast<uint64_t>(got);
    return static_cast<size_t>(got);
  }
  uint64_t file_offset() const override { return offset_; }

 private:
  [[noreturn]] void fail(std::string_view action) const {
    throw Error(ErrorKind::kIo,
                str("cannot ", action, " ", path_.string(), ": ", std::strerror(errno)));
  }

  fs::path path_;
  int fd_;
  uint64_t offset_ = 0;
};

}  // namespace

Compression compression_of(const fs::path& path) {
  constexpr std::array<std::string_view, 8> kRefused = {".xz", ".lzma", ".lz4", ".zip",
                                                        ".7z", ".rar",  ".br",  ".tar"};
  const std::string extension = path.extension().native();
  if (extension == ".gz") return Compression::kGzip;
  if (extension == ".zst" || extension == ".zstd") return Compression::kZstd;
  if (extension == ".bz2") return Compression::kBzip2;
  if (std::find(kRefused.begin(), kRefused.end(), extension) != kRefused.end()) {
    throw Error(ErrorKind::kConfig,
                str(path.string(), ": ", extension,
                    " files are not read; unpack it, or compress it as .gz, .zst or .bz2"));
  }
  return Compression::kNone;
}

std::unique_ptr<ByteStream> open_bytes(const fs::path& path) {
  auto file = std::make_unique<PlainStream>(path);
  const Compression compression = compression_of(path);
  if (compression == Compression::kNone) return file;
  return decompress(std::move(file), compression, path);
}

}  // namespace lmtrain
