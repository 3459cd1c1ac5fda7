// A FileWriter for many small writes, which another process can go on with: sync() tells what is on
// disk, and whoever has that, after a crash too, opens the file with it again. One thread.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "base/files/file.h"

namespace lmtrain {

class BufferedFile {
 public:
  explicit BufferedFile(const std::filesystem::path& path);
  // Keeps what sync() told and cuts off the rest. Error(kData) unless those bytes are there.
  BufferedFile(const std::filesystem::path& path, const FileSum& kept);

  void write(std::string_view bytes);
  void flush();  // to the operating system
  FileSum sync();
  // Flushes, syncs and closes.
  void finish();

  // Bytes written, flushed or not.
  uint64_t size() const { return file_.size() + buffer_.size(); }
  // Flush first.
  FileWriter& file() { return file_; }

 private:
  FileWriter file_;
  std::string buffer_;
};

}  // namespace lmtrain
