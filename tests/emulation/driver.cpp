// The driver's virtual memory management of cuda.h, by memfd and mmap.
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <map>
#include <string>
#include <utility>

#include "cuda.h"
#include "cuda_runtime.h"

namespace {

constexpr size_t kPage = 64 << 10;

struct Memory {
  int file = -1;
  size_t bytes = 0;
};
struct Mapped {
  CUmemGenericAllocationHandle handle = 0;
  size_t bytes = 0;
};

std::map<CUmemGenericAllocationHandle, Memory> memories;
std::map<CUdeviceptr, size_t> reserved;
std::map<CUdeviceptr, Mapped> mapped;
CUmemGenericAllocationHandle last_handle = 0;
size_t limit = SIZE_MAX;

void* pointer(CUdeviceptr address) { return reinterpret_cast<void*>(address); }

bool is_in_reserved(CUdeviceptr address, size_t bytes) {
  auto next = reserved.upper_bound(address);
  if (next == reserved.begin()) return false;
  --next;
  return address + bytes <= next->first + next->second;
}

}  // namespace

size_t emulation::set_memory_limit(size_t bytes) { return std::exchange(limit, bytes); }

size_t emulation::memory_in_use() {
  size_t bytes = 0;
  for (const auto& [handle, memory] : memories) bytes += memory.bytes;
  return bytes;
}

CUresult cuMemGetAllocationGranularity(size_t* bytes, const CUmemAllocationProp* properties,
                                       CUmemAllocationGranularity_flags) {
  if (properties->location.type != CU_MEM_LOCATION_TYPE_DEVICE) return CUDA_ERROR_INVALID_VALUE;
  *bytes = kPage;
  return CUDA_SUCCESS;
}

CUresult cuMemAddressReserve(CUdeviceptr* address, size_t bytes, size_t, CUdeviceptr,
                             unsigned long long) {
  if (bytes == 0 || bytes % kPage != 0) return CUDA_ERROR_INVALID_VALUE;
  void* const at = ::mmap(nullptr, bytes + kPage, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (at == MAP_FAILED) return CUDA_ERROR_OUT_OF_MEMORY;
  // A page of the host is smaller: what lies before the first whole page goes back, and after.
  const auto begin = reinterpret_cast<CUdeviceptr>(at);
  *address = (begin + kPage - 1) / kPage * kPage;
  if (*address > begin) ::munmap(at, *address - begin);
  const CUdeviceptr end = *address + bytes;
  if (begin + bytes + kPage > end) ::munmap(pointer(end), begin + bytes + kPage - end);
  reserved[*address] = bytes;
  return CUDA_SUCCESS;
}

CUresult cuMemAddressFree(CUdeviceptr address, size_t bytes) {
  const auto found = reserved.find(address);
  if (found == reserved.end() || found->second != bytes) return CUDA_ERROR_INVALID_VALUE;
  const auto inside = mapped.lower_bound(address);
  if (inside != mapped.end() && inside->first < address + bytes) return CUDA_ERROR_INVALID_VALUE;
  reserved.erase(found);
  ::munmap(pointer(address), bytes);
  return CUDA_SUCCESS;
}

CUresult cuMemCreate(CUmemGenericAllocationHandle* handle, size_t bytes, const CUmemAllocationProp*,
                     unsigned long long) {
  if (bytes == 0 || bytes % kPage != 0) return CUDA_ERROR_INVALID_VALUE;
  if (emulation::memory_in_use() + bytes > limit) return CUDA_ERROR_OUT_OF_MEMORY;
  const int file = ::memfd_create("emulated GPU", MFD_CLOEXEC);
  if (file < 0 || ::ftruncate(file, static_cast<off_t>(bytes)) != 0)
    return CUDA_ERROR_OUT_OF_MEMORY;
  *handle = ++last_handle;
  memories[*handle] = {file, bytes};
  return CUDA_SUCCESS;
}

CUresult cuMemRelease(CUmemGenericAllocationHandle handle) {
  const auto found = memories.find(handle);
  if (found == memories.end()) return CUDA_ERROR_INVALID_VALUE;
  ::close(found->second.file);
  memories.erase(found);
  return CUDA_SUCCESS;
}

CUresult cuMemMap(CUdeviceptr address, size_t bytes, size_t offset,
                  CUmemGenericAllocationHandle handle, unsigned long long) {
  const auto memory = memories.find(handle);
  // "offset: currently must be zero" (cuda.h).
  if (memory == memories.end() || offset != 0 || memory->second.bytes != bytes ||
      address % kPage != 0 || !is_in_reserved(address, bytes) || mapped.contains(address))
    return CUDA_ERROR_INVALID_VALUE;
  void* const at =
      ::mmap(pointer(address), bytes, PROT_NONE, MAP_SHARED | MAP_FIXED, memory->second.file, 0);
  if (at == MAP_FAILED) return CUDA_ERROR_OUT_OF_MEMORY;
  mapped[address] = {handle, bytes};
  return CUDA_SUCCESS;
}

CUresult cuMemUnmap(CUdeviceptr address, size_t bytes) {
  const auto found = mapped.find(address);
  if (found == mapped.end() || found->second.bytes != bytes) return CUDA_ERROR_INVALID_VALUE;
  mapped.erase(found);
  ::mmap(pointer(address), bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
  return CUDA_SUCCESS;
}

CUresult cuMemSetAccess(CUdeviceptr address, size_t bytes, const CUmemAccessDesc* access,
                        size_t count) {
  if (count != 1 || access->flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE)
    return CUDA_ERROR_INVALID_VALUE;
  for (CUdeviceptr at = address; at < address + bytes;) {
    const auto found = mapped.find(at);
    if (found == mapped.end()) return CUDA_ERROR_INVALID_VALUE;
    at += found->second.bytes;
  }
  return ::mprotect(pointer(address), bytes, PROT_READ | PROT_WRITE) == 0
             ? CUDA_SUCCESS
             : CUDA_ERROR_INVALID_VALUE;
}

cudaError_t cudaGetDriverEntryPointByVersion(const char* name, void** function, unsigned version,
                                             unsigned long long,
                                             cudaDriverEntryPointQueryResult* found) {
  static const std::map<std::string, void*> functions = {
      {"cuMemGetAllocationGranularity", reinterpret_cast<void*>(cuMemGetAllocationGranularity)},
      {"cuMemAddressReserve", reinterpret_cast<void*>(cuMemAddressReserve)},
      {"cuMemAddressFree", reinterpret_cast<void*>(cuMemAddressFree)},
      {"cuMemCreate", reinterpret_cast<void*>(cuMemCreate)},
      {"cuMemRelease", reinterpret_cast<void*>(cuMemRelease)},
      {"cuMemMap", reinterpret_cast<void*>(cuMemMap)},
      {"cuMemUnmap", reinterpret_cast<void*>(cuMemUnmap)},
      {"cuMemSetAccess", reinterpret_cast<void*>(cuMemSetAccess)}};
  const auto known = functions.find(name);
  const bool is_there = known != functions.end() && version >= 10020;
  *found = is_there ? cudaDriverEntryPointSuccess : cudaDriverEntryPointSymbolNotFound;
  *function = is_there ? known->second : nullptr;
  return cudaSuccess;
}
