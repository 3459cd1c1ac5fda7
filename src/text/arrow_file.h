// The readers of Arrow's formats share these functions. Only the files arrow_* of this folder
// include this header.
#pragma once

#include <arrow/io/interfaces.h>
#include <arrow/memory_pool.h>
#include <arrow/status.h>

#include <filesystem>
#include <memory>
#include <new>
#include <string>

#include "base/error.h"
#include "base/text.h"

namespace lmtrain {

// Opens a file for reads by pread. It never maps the file, since a file that shrinks meanwhile must
// not kill the process. It repeats a read that fails for a passing reason (base/open_file.h). The
// result is for one thread. Throws Error(kIo), and Error(kData) where the path is no regular file.
std::shared_ptr<arrow::io::RandomAccessFile> open_arrow_file(const std::filesystem::path& path);

// A TableMemory gives Arrow the memory for decompressed data. A small file may hold, or claim, more
// than fits in memory. So the pool refuses a buffer of more than 2 GiB, or twice `max_document`
// (bytes) where that is more. It remembers what it refused, since Arrow's own errors say too
// little. It must outlive what is read with it.
class TableMemory : public arrow::ProxyMemoryPool {
 public:
  explicit TableMemory(uint64_t max_document);

  using arrow::ProxyMemoryPool::Allocate;
  using arrow::ProxyMemoryPool::Reallocate;
  arrow::Status Allocate(int64_t size, int64_t alignment, uint8_t** out) override;
  arrow::Status Reallocate(int64_t old_size, int64_t new_size, int64_t alignment,
                           uint8_t** pointer) override;

  // Throws where a request was refused: std::bad_alloc where the system refused it, Error(kData)
  // naming `where` in a file where it was above the limit.
  void require_no_refusal(const std::string& where) const;

 private:
  arrow::Status noted(int64_t size, const arrow::Status& status);

  int64_t largest_;
  int64_t refused_ = 0;  // bytes of the request that was above the limit
  bool exhausted_ = false;
};

// Throws Error(kData) with `problem`, Arrow's message about the file, or with what foreign_file()
// finds (byte_stream.h). Throws Error(kIo) where the message says that the operating system
// refused.
[[noreturn]] void fail_arrow_file(const std::filesystem::path& path, const std::string& problem);

// Calls action(), which reads the file with Arrow. Turns an exception of Arrow into the error of
// TableMemory::require_no_refusal() or else of fail_arrow_file(), which names the file and row(),
// the row being read, from 0. Passes on Error and std::bad_alloc.
template <class Action, class Row>
void read_arrow(const std::filesystem::path& path, const TableMemory& memory, const Action& action,
                const Row& row) {
  try {
    action();
  } catch (const Error&) {
    throw;
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::exception& error) {
    memory.require_no_refusal(str(shown(path), ": row ", row()));
    fail_arrow_file(path, str("row ", row(), ": ", error.what()));
  }
}

// Throws Error(kData) for two columns of the same name at the same depth.
[[noreturn]] void fail_ambiguous_column(const std::filesystem::path& path,
                                        const std::string& column);

// Throws Error(kData) for a column whose type, `type`, is not text.
[[noreturn]] void fail_column_type(const std::filesystem::path& path, const std::string& column,
                                   const std::string& type);

}  // namespace lmtrain
