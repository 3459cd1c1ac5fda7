// Splitting and rotating Q, K and V on a GPU: a block for each position, its threads over the heads
// and the pairs of each.
#include "kernels/cuda/common.cuh"

namespace lmtrain::cuda {
namespace {

constexpr int kBlock = 256;

// The three kinds of heads, in the order in which they lie in a packed row.
struct Heads {
  HeadsView q, k, v;
};

// Turns the pairs (a[j], b[j]) by the angles of cosine and sine c[j] and s[j].
template <int kWidth>
__device__ void turn(Floats<kWidth>& a, Floats<kWidth>& b, const Floats<kWidth>& c,
                     const Floats<kWidth>& s) {
#pragma unroll
  for (int j = 0; j < kWidth; ++j) {
    const float first = a.lane[j] * c.lane[j] - b.lane[j] * s.lane[j];
    b.lane[j] = b.lane[j] * c.lane[j] + a.lane[j] * s.lane[j];
    a.lane[j] = first;
  }
}

// Rotates the heads of q and k in `packed`. Every pair is one thread's.
template <class T, int kWidth>
__global__ void rotate_kernel(T* packed, const float* cos, const float* sin,
                              const RopeShape shape) {
  const int64_t position = row_of_block();
  const int64_t half = shape.half;
  const int64_t angles = position % shape.num_angles * half;
  const int packs = static_cast<int>(half / kWidth);
  const int rotated = static_cast<int>(shape.num_heads + shape.num_kv_heads);
  T* row = packed + position * (rotated + shape.num_kv_heads) * 2 * half;
  for (int item = static_cast<int>(threadIdx.x); item < rotated * packs;
       item += static_cast<int>(blockDim.x)) {
    const int64_t i = int64_t{item % packs} * kWidth;
    T* pair = row + item / packs * 2 * half + i;
    auto a = load<kWidth>(pair);
    auto b = load<kWidth>(pair + half);
    turn(a, b, load<kWidth>(cos + angles + i), load<kWidth>(sin + angles + i));
    store<kWidth>(pair, a);
    store<kWidth>(pair + half, b);
  }
}

// Copies the heads into `packed`, with q and k rotated the other way.
template <class T, int kWidth>
__global__ void backward_kernel(T* packed, const Heads heads, const float* cos, const float* sin,
                                const RopeShape shape) {
  const int64_t position = row_of_block();
  const int64_t batch = position / shape.length;
  const int64_t t = position % shape.length;
  const int64_t half = shape.half;
  const int64_t angles = position % shape.num_angles * half;
  const int num_heads = static_cast<int>(shape.num_heads);
  const int num_kv_heads = static_cast<int>(shape.num_kv_heads);
  const int packs = static_cast<int>(half / kWidth);
  const int all_heads = num_heads + 2 * num_kv_heads;
  T* row = packed + position * all_heads * 2 * half;
  for (int item = static_cast<int>(threadIdx.x); item < all_heads * packs;
       item += static_cast<int>(blockDim.x)) {
    const int head = item / packs;
    const int64_t i = int64_t{item % packs} * kWidth;
    const bool is_q = head < num_heads;
    const bool is_k = !is_q && head < num_heads + num_kv_heads;
    const int in_kind = is_q ? head : (head - num_heads) % num_kv_heads;
    // Member by member: a reference to one of the three would put them all into local memory.
    const auto of_kind = [&](auto member) {
      return is_q ? heads.q.*member : is_k ? heads.k.*member : heads.v.*member;
    };
    T* to = row + head * 2 * half + i;
    const T* from = static_cast<const T*>(of_kind(&HeadsView::data)) +
                    batch * of_kind(&HeadsView::batch_stride) +
                    in_kind * of_kind(&HeadsView::head_stride) +
                    t * of_kind(&HeadsView::row_stride) + i;
    auto a = load<kWidth>(from);
    auto b = load<kWidth>(from + half);
    if (is_q || is_k) {
      auto s = load<kWidth>(sin + angles + i);
#pragma unroll
      for (int j = 0; j < kWidth; ++j) s.lane[j] = -s.lane[j];
      turn(a, b, load<kWidth>(cos + angles + i), s);
    }
    store<kWidth>(to, a);
    store<kWidth>(to + half, b);
  }
}

template <class T>
bool packs_fit(const HeadsView& view) {
  constexpr int64_t kElements = kPack<T>;
  return aligned_to(16, view.data) && view.batch_stride % kElements == 0 &&
         view.head_stride % kElements == 0 && view.row_stride % kElements == 0;
}

}  // namespace

void qkv_rope_forward(const Call& call, void* qkv, const float* cos, const float* sin,
                      const RopeShape& shape) {
  const int64_t positions = shape.batch * shape.length;
  if (positions == 0) return;
  with_element(call.type, [&]<class T>(T) {
    // The angles are fp32: 8 of them are two words of 16 bytes.
    with_width<kPack<T>>(packs_fit<T>(shape.half, {qkv, cos, sin}), [&]<int W>(Width<W>) {
      const int64_t items = (shape.num_heads + shape.num_kv_heads) * (shape.half / W);
      rotate_kernel<T, W>
          <<<num_blocks(positions, 1), num_threads(items, kBlock), 0, stream_of(call)>>>(
              static_cast<T*>(qkv), cos, sin, shape);
    });
  });
  check_launch("qkv_rope_forward");
}

void qkv_rope_backward(const Call& call, const HeadsView& dq, const HeadsView& dk,
                       const HeadsView& dv, const float* cos, const float* sin, void* d_qkv,
                       const RopeShape& shape) {
  const int64_t positions = shape.batch * shape.length;
  if (positions == 0) return;
  const Heads heads = {dq, dk, dv};
  with_element(call.type, [&]<class T>(T) {
    const bool aligned = packs_fit<T>(shape.half, {d_qkv, cos, sin}) && packs_fit<T>(dq) &&
                         packs_fit<T>(dk) && packs_fit<T>(dv);
    with_width<kPack<T>>(aligned, [&]<int W>(Width<W>) {
      const int64_t items = (shape.num_heads + 2 * shape.num_kv_heads) * (shape.half / W);
      backward_kernel<T, W>
          <<<num_blocks(positions, 1), num_threads(items, kBlock), 0, stream_of(call)>>>(
              static_cast<T*>(d_qkv), heads, cos, sin, shape);
    });
  });
  check_launch("qkv_rope_backward");
}

}  // namespace lmtrain::cuda
