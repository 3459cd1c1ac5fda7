// The CUDA kernels share these functions: elements as fp32 in packs of up to 16 bytes, sums over a
// warp and a block in a fixed order, and launching. Only the .cu files of this folder include it.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <type_traits>

#include "base/error.h"
#include "base/text.h"
#include "kernels/cuda/kernels.h"

namespace lmtrain::cuda {

inline constexpr int kWarp = 32;

// --- Elements ------------------------------------------------------------------------------------

__device__ inline float to_float(float x) { return x; }
__device__ inline float to_float(__nv_bfloat16 x) { return __bfloat162float(x); }
__device__ inline float to_float(__half x) { return __half2float(x); }

template <class T>
__device__ T from_float(float x) {
  if constexpr (std::is_same_v<T, float>) {
    return x;
  } else if constexpr (std::is_same_v<T, __half>) {
    return __float2half_rn(x);
  } else {
    return __float2bfloat16_rn(x);
  }
}

// Returns x as it is after being stored as a T.
template <class T>
__device__ float rounded(float x) {
  return to_float(from_float<T>(x));
}

// Returns 2^x to 2 units in the last place, by one instruction; 0 where that is below 2^-126. e^x
// is 2^(kLog2OfE x); __expf would spend three more instructions on the numbers below.
inline constexpr float kLog2OfE = 1.44269504F;
__device__ inline float power_of_2(float x) {
#ifdef __CUDA_ARCH__
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
#else
  return exp2f(x);
#endif
}

// A pack: kWidth neighbours as fp32.
template <int kWidth>
struct Floats {
  float lane[kWidth];
};

// kBytes as unsigned integers: one, or several of 16 bytes. Each is one load or store instruction.
template <size_t kBytes>
struct Words {
  static_assert(kBytes == 2 || kBytes == 4 || kBytes == 8 || kBytes % 16 == 0);
  using Word = std::conditional_t<
      kBytes == 2, uint16_t,
      std::conditional_t<kBytes == 4, uint32_t, std::conditional_t<kBytes == 8, uint2, uint4>>>;
  Word word[kBytes / sizeof(Word)];
};

// A pack as it lies in memory: what a thread holds while it waits for more.
template <class T, int kWidth>
struct Pack {
  Words<kWidth * sizeof(T)> words;
};

// `p` must be aligned to the pack, or to 16 bytes where that is larger.
template <int kWidth, class T>
__device__ Pack<T, kWidth> load_pack(const T* p) {
  return {*reinterpret_cast<const Words<kWidth * sizeof(T)>*>(p)};
}

template <class T, int kWidth>
__device__ Floats<kWidth> floats_of(const Pack<T, kWidth>& pack) {
  T elements[kWidth];
  __builtin_memcpy(elements, &pack.words, sizeof pack.words);
  Floats<kWidth> x;
#pragma unroll
  for (int i = 0; i < kWidth; ++i) x.lane[i] = to_float(elements[i]);
  return x;
}

template <int kWidth, class T>
__device__ Floats<kWidth> load(const T* p) {
  return floats_of(load_pack<kWidth>(p));
}

template <class T, int kWidth>
__device__ Pack<T, kWidth> pack_of(const Floats<kWidth>& x) {
  T elements[kWidth];
#pragma unroll
  for (int i = 0; i < kWidth; ++i) elements[i] = from_float<T>(x.lane[i]);
  Pack<T, kWidth> pack;
  __builtin_memcpy(&pack.words, elements, sizeof pack.words);
  return pack;
}

// The intrinsic stores a word at once. Of an assignment the compiler makes stores of two elements
// in some kernels.
template <class T, int kWidth>
__device__ void store_pack(T* p, const Pack<T, kWidth>& pack) {
  using Word = typename Words<kWidth * sizeof(T)>::Word;
#pragma unroll
  for (size_t i = 0; i < kWidth * sizeof(T) / sizeof(Word); ++i) {
    __stwb(reinterpret_cast<Word*>(p) + i, pack.words.word[i]);
  }
}

template <int kWidth, class T>
__device__ void store(T* p, const Floats<kWidth>& x) {
  store_pack(p, pack_of<T>(x));
}

// --- Sums ----------------------------------------------------------------------------------------

// Returns the sum over a warp, to every lane.
template <class V>
__device__ V warp_sum(V x) {
#pragma unroll
  for (int distance = kWarp / 2; distance > 0; distance /= 2) {
    x += __shfl_xor_sync(0xFFFFFFFFU, x, distance);
  }
  return x;
}

// Returns the sum over a block of whole warps, to every thread.
template <class V>
__device__ V block_sum(V x) {
  __shared__ V of_warp[kWarp];
  const unsigned num_warps = blockDim.x / kWarp;
  x = warp_sum(x);
  if (num_warps == 1) return x;
  __syncthreads();  // a sum before this one may still be read
  if (threadIdx.x % kWarp == 0) of_warp[threadIdx.x / kWarp] = x;
  __syncthreads();
  return warp_sum(threadIdx.x % kWarp < num_warps ? of_warp[threadIdx.x % kWarp] : V{0});
}

// --- Loops ---------------------------------------------------------------------------------------

// The width of a pack, passed as an argument.
template <int kElements>
struct Width {};

// Calls body(Width<W>, i) for elements [i, i + W) of `count`: W is kWidth, and 1 for the rest at
// the end. Thread number `thread` of `threads` takes its share.
template <int kWidth, class Body>
__device__ void for_each_pack(int64_t count, int64_t thread, int64_t threads, const Body& body) {
  const int64_t packed = count / kWidth * kWidth;
  for (int64_t i = thread * kWidth; i < packed; i += threads * kWidth) {
    body(Width<kWidth>{}, i);
  }
  if constexpr (kWidth > 1) {
    for (int64_t i = packed + thread; i < count; i += threads) {
      body(Width<1>{}, i);
    }
  }
}

// Does the same with all threads of the grid.
template <int kWidth, class Body>
__device__ void for_each_pack_of_grid(int64_t count, const Body& body) {
  for_each_pack<kWidth>(count, int64_t{blockIdx.x} * blockDim.x + threadIdx.x,
                        int64_t{gridDim.x} * blockDim.x, body);
}

// Returns the row of this block, where each block has a row: the last row first. The product before
// wrote its last rows last, so these are the rows that the L2 cache still holds; the product after
// begins with the first rows, which are then the newest.
__device__ inline int64_t row_of_block() { return int64_t{gridDim.x} - 1 - int64_t{blockIdx.x}; }

// --- Launching -----------------------------------------------------------------------------------

// Calls f with a value of the C++ type of `type`.
template <class F>
void with_element(ElementType type, const F& f) {
  switch (type) {
    case ElementType::kFloat:
      return f(float{});
    case ElementType::kBf16:
      return f(__nv_bfloat16{});
    case ElementType::kHalf:
      return f(__half{});
  }
}

// Calls f(Width<kWidest>) if `aligned`, else f(Width<1>).
template <int kWidest, class F>
void with_width(bool aligned, const F& f) {
  if (aligned) {
    f(Width<kWidest>{});
  } else {
    f(Width<1>{});
  }
}

template <class T>
inline constexpr int kPack = 16 / sizeof(T);

// Returns whether packs of `bytes` may begin at p; true for null, for an array that is absent.
inline bool aligned_to(size_t bytes, const void* p) {
  return reinterpret_cast<uintptr_t>(p) % bytes == 0;
}

// Returns whether packs of 16 bytes may begin at each of these addresses.
inline bool all_aligned(std::initializer_list<const void*> memory) {
  return std::ranges::all_of(memory, [](const void* p) { return aligned_to(16, p); });
}

// Returns whether rows of `dim` elements in these arrays may be read in packs of 16 bytes.
template <class T>
bool packs_fit(int64_t dim, std::initializer_list<const void*> memory) {
  return dim % kPack<T> == 0 && all_aligned(memory);
}

inline cudaStream_t stream_of(const Call& call) { return static_cast<cudaStream_t>(call.stream); }

// Returns the number of blocks for `work` items, `work_of_block` to a block, but at most 2^30: with
// more items the blocks of the kernel must loop.
inline unsigned num_blocks(int64_t work, int64_t work_of_block) {
  return static_cast<unsigned>(
      std::min<int64_t>((work + work_of_block - 1) / work_of_block, int64_t{1} << 30));
}

// Returns the threads of a block that loops over `work` items: whole warps, at most `most`.
inline unsigned num_threads(int64_t work, int64_t most) {
  return static_cast<unsigned>(
      std::clamp<int64_t>((work + kWarp - 1) / kWarp * kWarp, kWarp, most));
}

inline void check_launch(const char* kernel) {
  if (const cudaError_t error = cudaGetLastError(); error != cudaSuccess) {
    throw Error(ErrorKind::kInternal, str("CUDA kernel ", kernel, ": ", cudaGetErrorString(error),
                                          "; an earlier kernel may be the one that failed: run "
                                          "with CUDA_LAUNCH_BLOCKING=1 to see"));
  }
}

}  // namespace lmtrain::cuda
