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

// kForward: from `packed` into the heads, rotated; else from the heads back, rotated the other way.
template <class T, int kWidth, bool kForward>
__global__ void kernel(T* packed, const Heads heads, const float* cos, const float* sin,
                       const RopeShape shape) {
  const int64_t position = blockIdx.x;
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
    T* one = row + head * 2 * half + i;
    T* other = static_cast<T*>(of_kind(&HeadsView::data)) +
               batch * of_kind(&HeadsView::batch_stride) +
               in_kind * of_kind(&HeadsView::head_stride) + t * of_kind(&HeadsView::row_stride) + i;
    const T* from = kForward ? one : other;
    T* to = kForward ? other : one;
    auto a = load<kWidth>(from);
    auto b = load<kWidth>(from + half);
    if (is_q || is_k) {
      const auto c = load<kWidth>(cos + angles + i);
      const auto s = load<kWidth>(sin + angles + i);
#pragma unroll
      for (int j = 0; j < kWidth; ++j) {
        const float turn = kForward ? s.lane[j] : -s.lane[j];
        const float first = a.lane[j] * c.lane[j] - b.lane[j] * turn;
        b.lane[j] = b.lane[j] * c.lane[j] + a.lane[j] * turn;
        a.lane[j] = first;
      }
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

template <bool kForward>
void launch(const Call& call, void* packed, const Heads& heads, const float* cos, const float* sin,
            const RopeShape& shape) {
  const int64_t positions = shape.batch * shape.length;
  if (positions == 0) return;
  with_element(call.type, [&]<class T>(T) {
    // Angles are fp32: 8 of them are two words of 16 bytes.
    const bool aligned = shape.half % kPack<T> == 0 && aligned_to(16, packed) &&
                         aligned_to(16, cos) && aligned_to(16, sin) && packs_fit<T>(heads.q) &&
                         packs_fit<T>(heads.k) && packs_fit<T>(heads.v);
    with_width<kPack<T>>(aligned, [&]<int W>(Width<W>) {
      const int64_t items = (shape.num_heads + 2 * shape.num_kv_heads) * (shape.half / W);
      kernel<T, W, kForward>
          <<<num_blocks(positions, 1), num_threads(items, kBlock), 0, stream_of(call)>>>(
              static_cast<T*>(packed), heads, cos, sin, shape);
    });
  });
}

}  // namespace

void qkv_rope_forward(const Call& call, const void* qkv, const float* cos, const float* sin,
                      const HeadsView& q, const HeadsView& k, const HeadsView& v,
                      const RopeShape& shape) {
  launch<true>(call, const_cast<void*>(qkv), {q, k, v}, cos, sin, shape);  // it is only read
  check_launch("qkv_rope_forward");
}

void qkv_rope_backward(const Call& call, const HeadsView& dq, const HeadsView& dk,
                       const HeadsView& dv, const float* cos, const float* sin, void* d_qkv,
                       const RopeShape& shape) {
  launch<false>(call, d_qkv, {dq, dk, dv}, cos, sin, shape);
  check_launch("qkv_rope_backward");
}

}  // namespace lmtrain::cuda
