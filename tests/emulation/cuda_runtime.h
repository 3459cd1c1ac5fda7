// As much of CUDA as src/kernels/cuda/*.cu uses, on a CPU and without a toolkit, so that the
// kernels' own source is tested on machines without a GPU.
//
// translate.cmake turns `kernel<<<...>>>(...)` into `emulation::launch(name, kernel, ...)(...)`,
// and shared memory into static objects that the emulator poisons before each block, and whose bank
// conflicts it counts (shared_memory.h); all else is compiled as it stands. Blocks run one after
// another; the threads of a block are fibers (emulator.cpp): a warp runs until all of it waits at a
// barrier, then the next, in ascending or in descending order, so a kernel that lacks a barrier
// gives different results. A shuffle or barrier that not all threads reach ends the test, and so
// does a word that is not aligned (CMakeLists.txt). What this cannot show: the order of memory
// accesses inside a warp, limits of registers, speed.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <utility>

#include "shared_memory.h"

#define __global__
#define __device__
#define __host__
#define __launch_bounds__(...)
#define __maxnreg__(...)

struct dim3 {
  unsigned x = 1, y = 1, z = 1;
  dim3(unsigned x_, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_) {}
};
extern dim3 gridDim, blockDim, blockIdx, threadIdx;

struct alignas(8) float2 {
  float x, y;
};
struct alignas(8) uint2 {
  uint32_t x, y;
};
struct alignas(16) uint4 {
  uint32_t x, y, z, w;
};

using std::max;
using std::min;
inline uint32_t __float_as_uint(float x) { return std::bit_cast<uint32_t>(x); }
inline float __uint_as_float(uint32_t x) { return std::bit_cast<float>(x); }
inline uint32_t atomicMax(uint32_t* p, uint32_t x) {
  return std::exchange(*p, max(*p, x));  // one thread runs at a time
}
inline float __fdividef(float a, float b) { return a / b; }
template <class Word>
void __stwb(Word* p, Word word) {
  *p = word;
}

// --- The host's side -----------------------------------------------------------------------------

using cudaStream_t = void*;
enum cudaError_t { cudaSuccess, cudaErrorInvalidValue, cudaErrorStreamCaptureInvalidated };
struct cudaFuncAttributes {};
cudaError_t cudaGetLastError();  // of the launches so far
inline const char* cudaGetErrorString(cudaError_t error) {
  return error == cudaErrorInvalidValue ? "a launch out of limits" : "the capture has failed";
}
template <class Kernel>
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes*, Kernel) {
  return cudaSuccess;
}

enum cudaDeviceAttr { cudaDevAttrComputeCapabilityMajor, cudaDevAttrComputeCapabilityMinor };
inline cudaError_t cudaGetDevice(int* device) { return *device = 0, cudaSuccess; }
inline cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int) {
  *value = attribute == cudaDevAttrComputeCapabilityMajor ? 9 : 0;
  return cudaSuccess;
}

struct cudaDeviceProp {
  char name[256];
};
inline cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int) {
  *properties = {"emulated GPU"};
  return cudaSuccess;
}

// The driver's functions, by name (cuda.h, driver.cpp).
enum cudaDriverEntryPointQueryResult {
  cudaDriverEntryPointSuccess,
  cudaDriverEntryPointSymbolNotFound
};
inline constexpr unsigned long long cudaEnableDefault = 0;
cudaError_t cudaGetDriverEntryPointByVersion(const char* name, void** function, unsigned version,
                                             unsigned long long flags,
                                             cudaDriverEntryPointQueryResult* found);

// Kernels with their arguments, as they were when they were recorded.
struct EmulatedGraph;
using cudaGraph_t = EmulatedGraph*;
using cudaGraphExec_t = EmulatedGraph*;
enum cudaStreamCaptureMode { cudaStreamCaptureModeThreadLocal };
cudaError_t cudaStreamBeginCapture(cudaStream_t, cudaStreamCaptureMode);
cudaError_t cudaStreamEndCapture(cudaStream_t, cudaGraph_t*);
cudaError_t cudaGraphInstantiate(cudaGraphExec_t*, cudaGraph_t, unsigned long long flags);
cudaError_t cudaGraphLaunch(cudaGraphExec_t, cudaStream_t);
cudaError_t cudaGraphDestroy(cudaGraph_t);
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t);

namespace emulation {

// Whether the threads of a block take turns from the last to the first.
void set_descending(bool descending);

// At once, or into the graph that is captured from the stream. `name`: of the kernel, a constant.
void queue(const char* name, dim3 grid, dim3 block, size_t shared_bytes, cudaStream_t stream,
           const std::function<void()>& thread);

// Waits for the threads of the block, or of the warp.
void wait_for_block();
void wait_for_warp();
// Slots for what the threads of a block exchange, of 8 bytes each; two sets, used in turn.
uint64_t* exchange();
int thread_in_block();

template <class... Parameters>
auto launch(const char* name, void (*kernel)(Parameters...), dim3 grid, dim3 block,
            size_t shared_bytes, cudaStream_t stream) {
  return [=](auto... arguments) {
    queue(name, grid, block, shared_bytes, stream,
          [=] { kernel(static_cast<Parameters>(arguments)...); });
  };
}

template <class V>
V value_of_lane(V mine, int lane) {
  static_assert(sizeof(V) <= sizeof(uint64_t));
  uint64_t* const slots = exchange();
  const int thread = thread_in_block();
  std::memcpy(slots + thread, &mine, sizeof mine);
  wait_for_warp();
  V other;
  std::memcpy(&other, slots + thread / 32 * 32 + lane, sizeof other);
  return other;
}

}  // namespace emulation

inline void __syncthreads() { emulation::wait_for_block(); }

template <class V>
V __shfl_xor_sync(unsigned, V x, int mask) {
  return emulation::value_of_lane(x, (emulation::thread_in_block() % 32) ^ mask);
}

template <class V>
V __shfl_down_sync(unsigned, V x, int distance) {
  const int lane = emulation::thread_in_block() % 32;
  return emulation::value_of_lane(x, lane + distance < 32 ? lane + distance : lane);
}
