#include "text/arrow_file.h"

#include <arrow/buffer.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>

#include "base/error.h"
#include "base/open_file.h"
#include "base/text.h"
#include "text/byte_stream.h"

namespace lmtrain {
namespace {

namespace fs = std::filesystem;

// Arrow's own file reads once and gives up; this one tries again what may pass, as read_some does.
class RetryingFile : public arrow::io::RandomAccessFile {
 public:
  RetryingFile(int fd, int64_t size) : fd_(fd), size_(size) {}

  arrow::Status Close() override {
    closed_ = true;
    return arrow::Status::OK();
  }
  bool closed() const override { return closed_; }
  arrow::Result<int64_t> Tell() const override { return position_; }
  arrow::Status Seek(int64_t position) override {
    position_ = position;
    return arrow::Status::OK();
  }
  arrow::Result<int64_t> GetSize() override { return size_; }
  arrow::Result<int64_t> Read(int64_t size, void* out) override {
    ARROW_ASSIGN_OR_RAISE(const int64_t got, ReadAt(position_, size, out));
    position_ += got;
    return got;
  }
  arrow::Result<std::shared_ptr<arrow::Buffer>> Read(int64_t size) override {
    ARROW_ASSIGN_OR_RAISE(auto buffer, ReadAt(position_, size));
    position_ += buffer->size();
    return buffer;
  }
  arrow::Result<int64_t> ReadAt(int64_t position, int64_t size, void* out) override {
    int64_t filled = 0;
    Retry retry;
    while (filled < size) {
      const ssize_t got = ::pread(fd_.get(), static_cast<char*>(out) + filled,
                                  static_cast<size_t>(size - filled), position + filled);
      if (got == 0) break;
      if (got > 0) {
        filled += got;
      } else if (!retry.again(errno)) {
        // fail_arrow_file knows it by this.
        return arrow::Status::IOError("[errno ", errno, "] ", std::strerror(errno));
      }
    }
    return filled;
  }
  arrow::Result<std::shared_ptr<arrow::Buffer>> ReadAt(int64_t position, int64_t size) override {
    // A damaged file may ask for more than it has.
    size = std::min(size, std::max<int64_t>(0, size_ - position));
    ARROW_ASSIGN_OR_RAISE(auto buffer, arrow::AllocateResizableBuffer(size));
    ARROW_ASSIGN_OR_RAISE(const int64_t got, ReadAt(position, size, buffer->mutable_data()));
    ARROW_RETURN_NOT_OK(buffer->Resize(got));
    return std::shared_ptr<arrow::Buffer>(std::move(buffer));
  }

 private:
  Descriptor fd_;
  int64_t size_;
  int64_t position_ = 0;
  bool closed_ = false;
};

}  // namespace

std::shared_ptr<arrow::io::RandomAccessFile> open_arrow_file(const fs::path& path) {
  Descriptor fd(open_file(path, O_RDONLY, "open"));
  const auto size = static_cast<int64_t>(size_of(fd.get(), path));
  return std::make_shared<RetryingFile>(fd.release(), size);
}

TableMemory::TableMemory(uint64_t max_document)
    : ProxyMemoryPool(arrow::default_memory_pool()),
      largest_(
          std::max(int64_t{1} << 31,
                   static_cast<int64_t>(std::min<uint64_t>(max_document, INT64_MAX / 2)) * 2)) {}

arrow::Status TableMemory::noted(int64_t size, const arrow::Status& status) {
  if (status.IsCapacityError()) refused_ = size;
  if (status.IsOutOfMemory()) exhausted_ = true;
  return status;
}

arrow::Status TableMemory::Allocate(int64_t size, int64_t alignment, uint8_t** out) {
  if (size > largest_) return noted(size, arrow::Status::CapacityError("above the limit"));
  return noted(size, ProxyMemoryPool::Allocate(size, alignment, out));
}

arrow::Status TableMemory::Reallocate(int64_t old_size, int64_t new_size, int64_t alignment,
                                      uint8_t** pointer) {
  if (new_size > largest_) return noted(new_size, arrow::Status::CapacityError("above the limit"));
  return noted(new_size, ProxyMemoryPool::Reallocate(old_size, new_size, alignment, pointer));
}

void TableMemory::require_no_refusal(const std::string& where) const {
  if (exhausted_) throw std::bad_alloc();
  if (refused_ == 0) return;
  throw Error(ErrorKind::kData,
              str(where, ": a page or batch of ", format_bytes(static_cast<uint64_t>(refused_)),
                  " in memory, more than the ", format_bytes(static_cast<uint64_t>(largest_)),
                  " that data.max_document allows; get the file anew if it is damaged, else write "
                  "it with fewer rows in each, or raise data.max_document to half of that size "
                  "where memory holds it"));
}

void fail_arrow_file(const fs::path& path, const std::string& problem) {
  constexpr size_t kLongest = 500;
  // How Arrow marks what the operating system refused.
  if (problem.find("[errno ") != std::string::npos) {
    throw Error(ErrorKind::kIo, str("cannot read ", shown(path), ": ", problem.substr(0, kLongest),
                                    "; wait until the file system answers"));
  }
  if (const std::string other = foreign_file(path); !other.empty())
    throw Error(ErrorKind::kData, str(shown(path), ": is ", other));
  throw Error(ErrorKind::kData, str(shown(path), ": ", problem.substr(0, kLongest),
                                    "; the file is damaged, cut short, or of another format than "
                                    "its name or data.format says: get it anew"));
}

void fail_ambiguous_column(const fs::path& path, const std::string& column) {
  throw Error(
      ErrorKind::kData,
      str(shown(path), ": has two columns ", quote(column),
          ", and data.text_field may mean either; write the file with one of them renamed"));
}

void fail_column_type(const fs::path& path, const std::string& column, const std::string& type) {
  throw Error(ErrorKind::kData, str(shown(path), ": column ", quote(column), " is ", type,
                                    " instead of text; name another in data.text_field"));
}

}  // namespace lmtrain
