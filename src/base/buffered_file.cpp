#include "base/buffered_file.h"

#include "base/error.h"
#include "base/text.h"

namespace lmtrain {
namespace {

constexpr size_t kBufferBytes = size_t{1} << 20;

const std::filesystem::path& require_kept(const std::filesystem::path& path, const FileSum& kept) {
  if (sum_file(path, kept.size) != kept) {
    throw Error(ErrorKind::kData, str(shown(path), ": its first ", kept.size,
                                      " bytes are not those that were written"));
  }
  return path;
}

}  // namespace

BufferedFile::BufferedFile(const std::filesystem::path& path) : file_(path) {}
BufferedFile::BufferedFile(const std::filesystem::path& path, const FileSum& kept)
    : file_(require_kept(path, kept), kept) {}

void BufferedFile::write(std::string_view bytes) {
  buffer_ += bytes;
  if (buffer_.size() >= kBufferBytes) flush();
}

void BufferedFile::flush() {
  file_.write(buffer_);
  buffer_.clear();
}

FileSum BufferedFile::sync() {
  flush();
  file_.sync();
  return {file_.size(), file_.crc()};
}

void BufferedFile::finish() {
  flush();
  file_.finish();
}

}  // namespace lmtrain
