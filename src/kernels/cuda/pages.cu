// Memory without an address, and addresses without memory: the driver's virtual memory management.
// The driver's functions are asked for by name, so that the program needs no libcuda to start.
#include <cuda.h>

#include "kernels/cuda/common.cuh"

namespace lmtrain::cuda {
namespace {

// The driver's function of this name, as it was in CUDA 12.0.
template <class Function>
Function* driver_function(const char* name) {
  void* function = nullptr;
  cudaDriverEntryPointQueryResult found = cudaDriverEntryPointSymbolNotFound;
  const cudaError_t error =
      cudaGetDriverEntryPointByVersion(name, &function, 12000, cudaEnableDefault, &found);
  if (error == cudaSuccess && found == cudaDriverEntryPointSuccess && function != nullptr)
    return reinterpret_cast<Function*>(function);
  cudaGetLastError();  // it is reported here, and not by the next kernel
  throw Error(ErrorKind::kConfig, str("the NVIDIA driver has no ", name, "; install a newer one"));
}

struct Driver {
  decltype(cuMemGetAllocationGranularity)* granularity =
      driver_function<decltype(cuMemGetAllocationGranularity)>("cuMemGetAllocationGranularity");
  decltype(cuMemAddressReserve)* reserve =
      driver_function<decltype(cuMemAddressReserve)>("cuMemAddressReserve");
  decltype(cuMemAddressFree)* free_addresses =
      driver_function<decltype(cuMemAddressFree)>("cuMemAddressFree");
  decltype(cuMemCreate)* create = driver_function<decltype(cuMemCreate)>("cuMemCreate");
  decltype(cuMemRelease)* release = driver_function<decltype(cuMemRelease)>("cuMemRelease");
  decltype(cuMemMap)* map = driver_function<decltype(cuMemMap)>("cuMemMap");
  decltype(cuMemUnmap)* unmap = driver_function<decltype(cuMemUnmap)>("cuMemUnmap");
  decltype(cuMemSetAccess)* set_access =
      driver_function<decltype(cuMemSetAccess)>("cuMemSetAccess");
};

const Driver& driver() {
  static const Driver functions;
  return functions;
}

void check(CUresult result, const char* what) {
  if (result == CUDA_SUCCESS) return;
  const bool is_shortage = result == CUDA_ERROR_OUT_OF_MEMORY;
  throw Error(is_shortage ? ErrorKind::kMemory : ErrorKind::kInternal,
              str(what, ": ",
                  is_shortage ? "out of memory on the GPU"
                              : str("the driver's error ", static_cast<int>(result))));
}

CUmemLocation current_device() {
  int device = 0;
  if (cudaGetDevice(&device) != cudaSuccess)
    throw Error(ErrorKind::kInternal, "CUDA does not say which GPU is the current one");
  CUmemLocation location{};
  location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  location.id = device;
  return location;
}

CUmemAllocationProp properties() {
  CUmemAllocationProp memory{};
  memory.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  memory.location = current_device();
  return memory;
}

CUdeviceptr address_of(const void* address) { return reinterpret_cast<CUdeviceptr>(address); }

}  // namespace

int64_t page_bytes() {
  const CUmemAllocationProp memory = properties();
  size_t bytes = 0;
  const CUresult result = driver().granularity(&bytes, &memory, CU_MEM_ALLOC_GRANULARITY_MINIMUM);
  if (result != CUDA_SUCCESS) {
    throw Error(ErrorKind::kConfig,
                str("this GPU's driver cannot map memory at given addresses, as some virtual GPUs "
                    "cannot (error ",
                    static_cast<int>(result),
                    " of cuMemGetAllocationGranularity); set parallel.shard to \"optimizer\""));
  }
  return static_cast<int64_t>(bytes);
}

void* reserve_addresses(int64_t bytes) {
  CUdeviceptr address = 0;
  check(driver().reserve(&address, static_cast<size_t>(bytes), 0, 0, 0), "cuMemAddressReserve");
  return reinterpret_cast<void*>(address);
}

void free_addresses(void* address, int64_t bytes) {
  check(driver().free_addresses(address_of(address), static_cast<size_t>(bytes)),
        "cuMemAddressFree");
}

uint64_t create_pages(int64_t bytes) {
  const CUmemAllocationProp memory = properties();
  CUmemGenericAllocationHandle handle = 0;
  check(driver().create(&handle, static_cast<size_t>(bytes), &memory, 0), "cuMemCreate");
  return handle;
}

void destroy_pages(uint64_t pages) noexcept { driver().release(pages); }

void map_pages(void* address, uint64_t pages, int64_t bytes) {
  check(driver().map(address_of(address), static_cast<size_t>(bytes), 0, pages, 0), "cuMemMap");
}

void allow_access(void* address, int64_t bytes) {
  CUmemAccessDesc access{};
  access.location = current_device();
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  check(driver().set_access(address_of(address), static_cast<size_t>(bytes), &access, 1),
        "cuMemSetAccess");
}

void unmap_pages(void* address, int64_t bytes) {
  check(driver().unmap(address_of(address), static_cast<size_t>(bytes)), "cuMemUnmap");
}

}  // namespace lmtrain::cuda
