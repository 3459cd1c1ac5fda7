// The functions of read_file.h, and the functions of file.h that read.
#include "base/read_file.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <functional>
#include <memory>
#include <string>

#include "base/error.h"
#include "base/hash.h"
#include "base/open_file.h"
#include "base/stop.h"
#include "base/text.h"

namespace lmtrain {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void fail_too_large(const fs::path& path, uint64_t most) {
  throw Error(ErrorKind::kData, str(shown(path), " holds more than the ", format_bytes(most),
                                    " that a file of its kind may hold; it is not what it should "
                                    "be"));
}

// Throws StopRequested when a signal asks to stop.
void wait_until_readable(int fd) {
  constexpr int kMilliseconds = 100;  // a signal may come just before poll()
  pollfd input{fd, POLLIN, 0};
  for (;;) {
    const int ready = ::poll(&input, 1, kMilliseconds);
    if (ready > 0 || (ready < 0 && errno != EINTR)) return;
    throw_if_stopped();
  }
}

// Reads to the end, whatever the size: a file of /proc says that it has no bytes, and a pipe has no
// size. Calls `wait` before each read.
std::string read_all(
    int fd, const fs::path& path, uint64_t expected, uint64_t most,
    const std::function<void(int)>& wait = [](int) {}) {
  std::string bytes;
  bytes.resize(expected);
  size_t filled = 0;
  for (;;) {
    if (filled == bytes.size()) bytes.resize(bytes.size() + std::max<size_t>(4096, filled / 2));
    wait(fd);
    const size_t got = read_some(fd, path, bytes.data() + filled, bytes.size() - filled);
    if (got == 0) break;
    filled += got;
    if (filled > most) fail_too_large(path, most);
  }
  bytes.resize(filled);
  return bytes;
}

}  // namespace

FileReader::FileReader(const fs::path& path)
    : path_(path), fd_(open_file(path, O_RDONLY, "open")) {}
FileReader::~FileReader() {
  if (fd_ >= 0) ::close(fd_);
}
size_t FileReader::read(char* out, size_t size) { return read_some(fd_, path_, out, size); }

std::string read_file(const fs::path& path) { return read_file(path, kMostOfSmallFile); }

bool file_begins_with(const fs::path& path, std::string_view bytes) {
  std::string beginning(bytes.size(), '\0');
  FileReader reader(path);
  return read_fully(reader, beginning.data(), beginning.size()) == bytes.size() &&
         beginning == bytes;
}

std::string read_file(const fs::path& path, uint64_t most) {
  const Descriptor fd(open_file(path, O_RDONLY, "open"));
  const uint64_t size = size_of(fd.get(), path);
  if (size > most) fail_too_large(path, most);
  return read_all(fd.get(), path, size, most);
}

std::string read_file_or_pipe(const fs::path& path, uint64_t most) {
  // Opened without waiting for a writer, which poll() does as well and gives up for a signal.
  const Descriptor fd(open_any(path, O_RDONLY | O_NONBLOCK, "open"));
  return read_all(fd.get(), path, 0, most, wait_until_readable);
}

void read_chunks(const fs::path& path, const std::function<void(std::string_view)>& visit,
                 uint64_t most) {
  FileReader file(path);
  constexpr size_t kChunk = size_t{1} << 20;
  const auto buffer = std::make_unique_for_overwrite<char[]>(kChunk);
  while (most > 0) {
    const size_t size = std::min<uint64_t>(kChunk, most);
    const size_t filled = read_fully(file, buffer.get(), size);
    if (filled > 0) visit({buffer.get(), filled});
    if (filled < size) return;
    most -= filled;
  }
}

FileSum sum_file(const fs::path& path, uint64_t most) {
  FileSum sum;
  read_chunks(
      path,
      [&](std::string_view chunk) {
        sum.crc = crc32c(sum.crc, chunk.data(), chunk.size());
        sum.size += chunk.size();
      },
      most);
  return sum;
}

}  // namespace lmtrain
