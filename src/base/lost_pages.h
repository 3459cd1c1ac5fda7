// A page of a mapped file is lost when it cannot be read any more: another program cut the file
// short, or the file system refuses. The kernel then sends SIGBUS, which by default ends the
// process without a message.
//
// handle_lost_pages() changes that in two ways. A lost page of a file that was passed to
// survive_lost_pages() reads as zeros; its reader calls require_whole() after it has read, and
// before it uses the bytes. A lost page of any other mapped file ends the process at once, with a
// message that names the file. The exit code is that of kData (cut short) or kIo (anything else).
// All functions are thread-safe.
#pragma once

#include <cstddef>
#include <filesystem>

#include "base/file.h"

namespace lmtrain {

// Installs the handler of SIGBUS. Call once.
void handle_lost_pages();
void survive_lost_pages(const MappedFile& file);
// Throws when a page of `file` was lost: Error(kData) where the file became shorter, else
// Error(kIo). It is cheap: one load while no page of any file was lost.
void require_whole(const MappedFile& file);

// MappedFile alone calls these, after it has mapped a file and before it unmaps it.
void note_mapping(const void* begin, size_t size, const std::filesystem::path& path);
void forget_mapping(const void* begin) noexcept;

}  // namespace lmtrain
