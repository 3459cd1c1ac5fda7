// These functions tell the memory of this process, and how much more it may have, from Linux's
// files under /proc and /sys. All figures are in bytes. Nothing here throws.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

namespace lmtrain {

// These two return the resident memory of the process: now, and its peak since the last
// reset_peak_resident(). They return 0 where Linux does not tell.
uint64_t resident_bytes();
uint64_t peak_resident_bytes();
// Gives unused memory of the heap back to the system. The peak then begins anew.
void reset_peak_resident();
// Asks the system for huge pages under the next `bytes` that the heap hands out, so that the
// processor has fewer addresses to translate. Call it after configure_runtime() (device/device.h):
// before that, malloc gives a large block back to the system, and the request is lost with it. It
// occupies no memory, but it needs that many bytes of addresses. Returns false, having asked for
// nothing, where addresses are limited (RLIMIT_AS) or where malloc refuses a block so large. True
// does not promise that the system gives huge pages.
bool prefer_huge_pages(uint64_t bytes);

// Returns how many more bytes the process may touch before an allocation fails or the kernel ends a
// process. It is the least of three figures: the memory that the machine has available; what the
// memory limit of each control group around the process leaves, where inactive file caches count as
// free; and what RLIMIT_AS leaves. Returns nothing where none of them is known. `root` is "/"
// except in tests.
std::optional<uint64_t> available_bytes(const std::filesystem::path& root = "/");

}  // namespace lmtrain
