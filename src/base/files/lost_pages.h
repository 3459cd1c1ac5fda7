// Pages of mapped files that cannot be read any more: another program cut the file short, or the
// file system refuses. The kernel then sends SIGBUS, which by default ends the process without a
// word.
//
// After handle_lost_pages() there are two ways. A lost page of a file that survive_lost_pages()
// named reads as zeros; its reader calls require_whole() after it has read, before it uses what it
// read. For every other mapped file the process ends at once with a message that names the file,
// and with the exit code of kData (cut short) or kIo (anything else). All of it is thread-safe.
#pragma once

#include <cstddef>
#include <filesystem>

#include "base/files/file.h"

namespace lmtrain {

// Installs the handler of SIGBUS. Call once.
void handle_lost_pages();
void survive_lost_pages(const MappedFile& file);
// Error(kData) if a page of `file` was lost because the file is shorter than it was, Error(kIo) if
// one was lost otherwise. Costs one load while no page of any file was lost.
void require_whole(const MappedFile& file);

// For MappedFile alone: what is mapped, and from when to when.
void note_mapping(const void* begin, size_t size, const std::filesystem::path& path);
void forget_mapping(const void* begin) noexcept;

}  // namespace lmtrain
