// SwiGLU on a GPU: one pass, each block over a part of one row.
#include "kernels/cuda/common.cuh"

namespace lmtrain::cuda {
namespace {

constexpr int kBlock = 256;

__device__ float sigmoid(float x) { return __fdividef(1.0F, 1.0F + power_of_2(-kLog2OfE * x)); }

// Calls body(Width<W>, first column of the pack in a row of gate, the same in a row of `dim`) for
// the columns of this block's row.
template <int kWidth, class Body>
__device__ void for_row(int64_t dim, const Body& body) {
  const int64_t row = row_of_block();
  const int64_t thread = int64_t{blockIdx.y} * blockDim.x + threadIdx.x;
  for_each_pack<kWidth>(
      dim, thread, int64_t{gridDim.y} * blockDim.x,
      [&]<int W>(Width<W> width, int64_t i) { body(width, row * 2 * dim + i, row * dim + i); });
}

// The largest |x| of what a kernel writes, for fp8. Bits of numbers that are not negative have the
// order of the numbers, and those of a NaN are above all. A maximum has no order of its own, so it
// may be atomic.
class Amax {
 public:
  template <int W>
  __device__ void add(const Floats<W>& x) {
#pragma unroll
    for (int j = 0; j < W; ++j) bits_ = max(bits_, __float_as_uint(fabsf(x.lane[j])));
  }

  // All lanes of a warp call it. Raises one of the `kSwigluAmaxParts` numbers of `amax` to the
  // warp's largest, as it is after being stored as a T.
  template <class T>
  __device__ void raise(float* amax) const {
    uint32_t bits = bits_;
#pragma unroll
    for (int distance = kWarp / 2; distance > 0; distance /= 2) {
      bits = max(bits, __shfl_xor_sync(0xFFFFFFFFU, bits, distance));
    }
    if (threadIdx.x % kWarp != 0) return;
    bits = __float_as_uint(rounded<T>(__uint_as_float(bits)));
    auto* const part = reinterpret_cast<uint32_t*>(amax) + blockIdx.x % kSwigluAmaxParts;
    if (bits > *part) atomicMax(part, bits);  // most often there is nothing to raise
  }

 private:
  uint32_t bits_ = 0;
};

template <class T, int kWidth>
__global__ void forward_kernel(const T* gate_up, T* y, float* amax, int64_t dim) {
  Amax largest;
  for_row<kWidth>(dim, [&]<int W>(Width<W>, int64_t at_gate, int64_t at_y) {
    const auto gate = load<W>(gate_up + at_gate);
    auto out = load<W>(gate_up + at_gate + dim);
#pragma unroll
    for (int j = 0; j < W; ++j) out.lane[j] *= gate.lane[j] * sigmoid(gate.lane[j]);
    store<W>(y + at_y, out);
    if (amax != nullptr) largest.add(out);
  });
  if (amax != nullptr) largest.template raise<T>(amax);
}

template <class T, int kWidth>
__global__ void backward_kernel(const T* dy, const T* gate_up, T* d_gate_up, T* y, float* amax,
                                int64_t dim) {
  Amax largest;
  for_row<kWidth>(dim, [&]<int W>(Width<W>, int64_t at_gate, int64_t at_y) {
    auto gate = load<W>(gate_up + at_gate);
    auto up = load<W>(gate_up + at_gate + dim);
    const auto g = load<W>(dy + at_y);
    auto value = g;
#pragma unroll
    for (int j = 0; j < W; ++j) {
      const float x = gate.lane[j];
      const float s = sigmoid(x);
      value.lane[j] = up.lane[j] * (x * s);
      gate.lane[j] = g.lane[j] * up.lane[j] * s * (1.0F + x * (1.0F - s));
      up.lane[j] = g.lane[j] * x * s;
    }
    if (y != nullptr) store<W>(y + at_y, value);
    store<W>(d_gate_up + at_gate, gate);
    store<W>(d_gate_up + at_gate + dim, up);
    if (amax != nullptr) {
      largest.add(gate);
      largest.add(up);
    }
  });
  if (amax != nullptr) largest.template raise<T>(amax);
}

// x counts rows (up to 2^31), y counts parts of a row.
dim3 grid_of(int64_t rows, int64_t packs) {
  return {num_blocks(rows, 1), std::min(num_blocks(packs, kBlock), 65535U)};
}

}  // namespace

void swiglu_forward(const Call& call, const void* gate_up, void* y, float* amax, int64_t rows,
                    int64_t dim) {
  if (rows == 0) return;
  with_element(call.type, [&]<class T>(T) {
    with_width<kPack<T>>(packs_fit<T>(dim, {gate_up, y}), [&]<int W>(Width<W>) {
      forward_kernel<T, W>
          <<<grid_of(rows, dim / W), num_threads(dim / W, kBlock), 0, stream_of(call)>>>(
              static_cast<const T*>(gate_up), static_cast<T*>(y), amax, dim);
    });
  });
  check_launch("swiglu_forward");
}

void swiglu_backward(const Call& call, const void* dy, const void* gate_up, void* d_gate_up,
                     void* y, float* amax, int64_t rows, int64_t dim) {
  if (rows == 0) return;
  with_element(call.type, [&]<class T>(T) {
    with_width<kPack<T>>(packs_fit<T>(dim, {dy, gate_up, d_gate_up, y}), [&]<int W>(Width<W>) {
      backward_kernel<T, W>
          <<<grid_of(rows, dim / W), num_threads(dim / W, kBlock), 0, stream_of(call)>>>(
              static_cast<const T*>(dy), static_cast<const T*>(gate_up), static_cast<T*>(d_gate_up),
              static_cast<T*>(y), amax, dim);
    });
  });
  check_launch("swiglu_backward");
}

}  // namespace lmtrain::cuda
