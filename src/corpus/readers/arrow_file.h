// Functions that the readers of Arrow's formats share. Included by corpus/arrow_*.cpp alone.
#pragma once

#include <arrow/io/interfaces.h>
#include <arrow/status.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

namespace lmtrain {

// Reads with pread, never by a memory map: a file that shrinks meanwhile must not kill the process.
// A refusal that may pass is tried again (base/files/retry.h). For one thread. Error(kIo).
std::shared_ptr<arrow::io::RandomAccessFile> open_arrow_file(const std::filesystem::path& path);

// Error(kData): what Arrow says of the file; Error(kIo) where the operating system refused.
[[noreturn]] void fail_arrow_file(const std::filesystem::path& path, const std::string& problem);

// Error(kData) naming the columns there are, and the nearest.
[[noreturn]] void fail_missing_column(const std::filesystem::path& path, const std::string& column,
                                      const std::vector<std::string>& names);

// Error(kData) for columns of the same name, side by side.
[[noreturn]] void fail_ambiguous_column(const std::filesystem::path& path,
                                        const std::string& column);

// Error(kData) for a column of another type than text.
[[noreturn]] void fail_column_type(const std::filesystem::path& path, const std::string& column,
                                   const std::string& type);

}  // namespace lmtrain
