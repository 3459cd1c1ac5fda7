#include "device/releasable_memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "base/error.h"
#include "base/text.h"
#include "device/torch_headers.h"

namespace lmtrain {

at::Tensor releasable_zeros(int64_t numel, at::ScalarType dtype) {
  const size_t bytes = static_cast<size_t>(numel) * c10::elementSize(dtype);
  void* const memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) {
    throw Error(ErrorKind::kMemory, str("no addresses for ", format_bytes(bytes),
                                        " of weights: ", std::generic_category().message(errno)));
  }
  // A huge page would keep a whole layer for a few bytes that are not released.
  ::madvise(memory, bytes, MADV_NOHUGEPAGE);
  return at::from_blob(
      memory, {numel}, [bytes](void* begin) { ::munmap(begin, bytes); },
      at::TensorOptions().dtype(dtype));
}

void release_pages(const at::Tensor& range) {
  const auto page = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto begin = reinterpret_cast<uintptr_t>(range.data_ptr());
  const uintptr_t first = (begin + page - 1) / page * page;
  const uintptr_t end = (begin + range.nbytes()) / page * page;
  if (first >= end) return;
  if (::madvise(reinterpret_cast<void*>(first), end - first, MADV_DONTNEED) != 0) {
    throw Error(ErrorKind::kInternal,
                str("memory cannot be given back: ", std::generic_category().message(errno)));
  }
}

}  // namespace lmtrain
