// The memory of this process, and how much more it may have, as Linux tells it under /proc and
// /sys. Bytes. `root` is "/" but in tests.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

namespace lmtrain {

// What it occupies of the machine's memory: now, and at most since the last reset.
uint64_t resident_bytes();
uint64_t peak_resident_bytes();
// Frees what the heap holds unused, and begins peak_resident_bytes() anew from what is left.
void reset_peak_resident();
// Has what the heap hands out next, up to `bytes`, lie in huge pages where the system gives them on
// request: fewer addresses to translate. Touches nothing, but takes addresses: false where those
// are limited (RLIMIT_AS), or where the system promises no block so large.
bool prefer_huge_pages(uint64_t bytes);

// What it may still touch before an allocation fails or the kernel ends a process: the least of
// what the machine has available, what the memory limit of a control group (version 1 or 2) around
// it leaves, caches that would be given up counted as free, and what RLIMIT_AS leaves. Nothing
// where none is known.
std::optional<uint64_t> available_bytes(const std::filesystem::path& root = "/");

}  // namespace lmtrain
