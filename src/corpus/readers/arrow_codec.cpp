// decompress() of byte_stream.h.
#include <arrow/util/compression.h>

#include <string>

#include "base/error.h"
#include "base/text.h"
#include "corpus/readers/byte_stream.h"

namespace lmtrain {
namespace {

namespace fs = std::filesystem;

arrow::Compression::type arrow_type(Compression compression) {
  switch (compression) {
    case Compression::kGzip:
      return arrow::Compression::GZIP;
    case Compression::kZstd:
      return arrow::Compression::ZSTD;
    case Compression::kBzip2:
      return arrow::Compression::BZ2;
    case Compression::kNone:
      break;
  }
  return arrow::Compression::UNCOMPRESSED;
}

class CompressedStream : public ByteStream {
 public:
  CompressedStream(std::unique_ptr<ByteStream> file, Compression compression, fs::path path)
      : path_(std::move(path)),
        name_(arrow::util::Codec::GetCodecAsString(arrow_type(compression))),
        file_(std::move(file)) {
    auto codec = arrow::util::Codec::Create(arrow_type(compression));
    require(codec.status());
    auto decompressor = (*codec)->MakeDecompressor();
    require(decompressor.status());
    decompressor_ = *decompressor;
  }

  size_t read(char* out, size_t size) override {
    for (;;) {
      if (begin_ == end_ && !refill()) return 0;
      if (decompressor_->IsFinished()) require(decompressor_->Reset());
      const auto result =
          decompressor_->Decompress(static_cast<int64_t>(end_ - begin_),
                                    reinterpret_cast<const uint8_t*>(buffer_.data()) + begin_,
                                    static_cast<int64_t>(size), reinterpret_cast<uint8_t*>(out));
      require(result.status());
      if (result->bytes_read == 0 && result->bytes_written == 0 && !result->need_more_output) {
        fail("it makes no sense from here on");
      }
      begin_ += static_cast<size_t>(result->bytes_read);
      text_offset_ += static_cast<uint64_t>(result->bytes_written);
      between_members_ = decompressor_->IsFinished();
      if (result->bytes_written > 0) return static_cast<size_t>(result->bytes_written);
    }
  }
  uint64_t file_offset() const override { return file_->file_offset() - (end_ - begin_); }

 private:
  // False at the end of the file, which must be that of a member.
  bool refill() {
    begin_ = 0;
    end_ = file_->read(buffer_.data(), buffer_.size());
    if (end_ > 0) return true;
    if (!between_members_) fail("the file ends in the middle of it");
    return false;
  }

  void require(const arrow::Status& status) const {
    if (status.ok()) return;
    if (status.message().find("too much memory") != std::string::npos) fail_on_window();
    fail(status.message());
  }
  [[noreturn]] void fail_on_window() const {
    throw Error(ErrorKind::kData,
                str(path_.string(),
                    ": was compressed with a window of more than 128 MiB (zstd --long); compress "
                    "it again: zstd -d --long=31 -c FILE | zstd -o NEW_FILE"));
  }
  [[noreturn]] void fail(const std::string& problem) const {
    throw Error(ErrorKind::kData,
                str(path_.string(), ": the ", name_, " data is damaged or cut short at byte ",
                    file_offset(), " of the file, byte ", text_offset_, " of the text: ", problem,
                    "; get the file anew"));
  }

  fs::path path_;
  std::string name_;
  std::unique_ptr<ByteStream> file_;
  std::shared_ptr<arrow::util::Decompressor> decompressor_;
  std::string buffer_ = std::string(size_t{1} << 18, '\0');
  size_t begin_ = 0;
  size_t end_ = 0;
  uint64_t text_offset_ = 0;
  bool between_members_ = false;  // an empty file holds no member and is none
};

}  // namespace

std::unique_ptr<ByteStream> decompress(std::unique_ptr<ByteStream> file, Compression compression,
                                       const fs::path& path) {
  return std::make_unique<CompressedStream>(std::move(file), compression, path);
}

}  // namespace lmtrain
