// decompress() of byte_stream.h.
#include <arrow/util/compression.h>
#include <lzma.h>

#include <array>
#include <new>
#include <string>

#include "base/error.h"
#include "base/read_file.h"
#include "base/text.h"
#include "text/byte_stream.h"

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
    case Compression::kXz:
    case Compression::kNone:
      break;
  }
  return arrow::Compression::UNCOMPRESSED;
}

// xz in the form of Arrow's decompressors, which have no codec for it.
class XzDecompressor : public arrow::util::Decompressor {
 public:
  XzDecompressor() { begin(); }
  ~XzDecompressor() override { lzma_end(&stream_); }
  XzDecompressor(const XzDecompressor&) = delete;
  XzDecompressor& operator=(const XzDecompressor&) = delete;

  arrow::Result<DecompressResult> Decompress(int64_t input_size, const uint8_t* input,
                                             int64_t output_size, uint8_t* output) override {
    stream_.next_in = input;
    stream_.avail_in = static_cast<size_t>(input_size);
    stream_.next_out = output;
    stream_.avail_out = static_cast<size_t>(output_size);
    const lzma_ret result = lzma_code(&stream_, LZMA_RUN);
    if (result == LZMA_MEM_ERROR) throw std::bad_alloc();
    if (result == LZMA_MEMLIMIT_ERROR) return arrow::Status::IOError("too much memory");
    is_finished_ = result == LZMA_STREAM_END;
    if (!is_finished_ && result != LZMA_OK && result != LZMA_BUF_ERROR)
      return arrow::Status::IOError(problem(result));
    return DecompressResult{input_size - static_cast<int64_t>(stream_.avail_in),
                            output_size - static_cast<int64_t>(stream_.avail_out), false};
  }
  arrow::Status Reset() override {
    begin();
    return arrow::Status::OK();
  }
  bool IsFinished() override { return is_finished_; }

 private:
  static constexpr uint64_t kMostMemory = uint64_t{1} << 28;

  static const char* problem(lzma_ret result) {
    switch (result) {
      case LZMA_FORMAT_ERROR:
        return "it is no xz data";
      case LZMA_OPTIONS_ERROR:
        return "it says that it has a form that does not exist";
      case LZMA_UNSUPPORTED_CHECK:
        return "it has a checksum of an unknown kind";
      default:
        return "its checksum or its content is wrong";
    }
  }
  void begin() {
    is_finished_ = false;
    if (lzma_stream_decoder(&stream_, kMostMemory, LZMA_TELL_UNSUPPORTED_CHECK) != LZMA_OK)
      throw std::bad_alloc();
  }

  lzma_stream stream_{};
  bool is_finished_ = false;
};

// The ID of the dictionary that the first frame of a zstd file names (RFC 8878, 3.1.1.1); 0 for
// none.
uint32_t zstd_dictionary_id(const fs::path& path) {
  constexpr size_t kMagicBytes = 4;
  std::array<char, 10> head{};
  FileReader file(path);
  if (read_fully(file, head.data(), head.size()) < head.size()) return 0;
  const auto byte = [&](size_t i) { return uint32_t{static_cast<unsigned char>(head[i])}; };
  const uint32_t descriptor = byte(kMagicBytes);
  constexpr std::array<size_t, 4> kSizes = {0, 1, 2, 4};
  const bool has_window = (descriptor & 0x20U) == 0;
  const size_t begin = kMagicBytes + 1 + (has_window ? 1 : 0);
  uint32_t id = 0;
  for (size_t i = kSizes[descriptor & 3U]; i-- > 0;) id = id << 8U | byte(begin + i);
  return id;
}

class CompressedStream : public ByteStream {
 public:
  CompressedStream(std::unique_ptr<ByteStream> file, Compression compression, fs::path path)
      : path_(std::move(path)),
        compression_(compression),
        name_(compression == Compression::kXz
                  ? "xz"
                  : arrow::util::Codec::GetCodecAsString(arrow_type(compression))),
        file_(std::move(file)) {
    if (compression == Compression::kXz) {
      decompressor_ = std::make_shared<XzDecompressor>();
      return;
    }
    auto codec = arrow::util::Codec::Create(arrow_type(compression));
    require(codec.status());
    auto decompressor = (*codec)->MakeDecompressor();
    require(decompressor.status());
    decompressor_ = *decompressor;
  }

  size_t read(char* out, size_t size) override {
    for (;;) {
      if (begin_ == end_ && !refill()) return 0;
      if (between_members_ && is_padded()) {
        pass_padding();
        return 0;
      }
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
  // Returns false at the end of the file; throws where that is inside a member.
  bool refill() {
    begin_ = 0;
    end_ = file_->read(buffer_.data(), buffer_.size());
    if (end_ > 0) return true;
    if (!between_members_) fail("the file ends in the middle of it");
    return false;
  }

  // gzip and xz skip zeros after a member, which tapes and disk blocks leave there.
  bool is_padded() const {
    return (compression_ == Compression::kGzip || compression_ == Compression::kXz) &&
           buffer_[begin_] == '\0';
  }
  // The end of the file must follow the zeros.
  void pass_padding() {
    do {
      while (begin_ < end_ && buffer_[begin_] == '\0') ++begin_;
      if (begin_ < end_) fail("zeros follow it, and then other bytes");
    } while (refill());
  }

  void require(const arrow::Status& status) const {
    if (status.ok()) return;
    if (status.message().find("ictionary") != std::string::npos) fail_on_dictionary();
    if (status.message().find("too much memory") != std::string::npos) fail_on_window();
    fail(status.message());
  }
  [[noreturn]] void fail_on_window() const {
    if (compression_ == Compression::kXz) {
      throw Error(ErrorKind::kData,
                  str(shown(path_),
                      ": needs more than 256 MiB of memory to be decompressed (xz --lzma2=dict); "
                      "compress it again: xz -dc FILE | xz > NEW_FILE"));
    }
    throw Error(ErrorKind::kData,
                str(shown(path_),
                    ": was compressed with a window of more than 128 MiB (zstd --long); compress "
                    "it again: zstd -d --long=31 -c FILE | zstd -o NEW_FILE"));
  }
  [[noreturn]] void fail_on_dictionary() const {
    const uint32_t id = zstd_dictionary_id(path_);
    throw Error(ErrorKind::kData,
                str(shown(path_), ": is compressed with a zstd dictionary",
                    id == 0 ? "" : str(" (dictionary ID ", id, ")"),
                    ", which is a file of its own and not read here; decompress it with that "
                    "dictionary: zstd -d -D DICTIONARY FILE"));
  }
  [[noreturn]] void fail(const std::string& problem) const {
    if (const std::string other = foreign_file(path_); !other.empty())
      throw Error(ErrorKind::kData, str(shown(path_), ": is ", other));
    throw Error(
        ErrorKind::kData,
        str(shown(path_), ": the ", name_, " data is damaged or cut short at byte ", file_offset(),
            " of the file, byte ", text_offset_, " of the text: ", problem, "; get the file anew"));
  }

  fs::path path_;
  Compression compression_;
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
