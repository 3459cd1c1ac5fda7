// Computes causal attention inside one segment on a CPU, forward and backward: plain functions,
// single-threaded, no torch.
//
// A task is one key/value head with the query heads that share it. Scores are square blocks in the
// cache, and are never stored (Dao et al., 2205.14135). Each sum has a fixed order, so a result
// depends on the task only. Elements are float or Bf16, sums and softmax fp32. The source is
// compiled per instruction set like the kernels of kernels/cpu/kernels.h, and for avx512_bf16 and
// amx_bf16, which multiply pairs of bf16; the others widen bf16 first.
#pragma once

#include <cstdint>

#include "kernels/cpu/kernels.h"

namespace lmtrain {

// The first query of a forward task is a multiple of this.
inline constexpr int64_t kAttentionBlock = 64;

// The vectors of some heads: one, of a head's size, for each head and position of a segment. The
// numbers of a vector are contiguous; strides are in elements.
template <class T>
struct HeadVectors {
  T* data;
  int64_t row_stride;  // from a position to the next
  int64_t head_stride;
  [[gnu::always_inline]] T* at(int64_t head, int64_t position) const {
    return data + head * head_stride + position * row_stride;
  }
};

template <class T>
struct AttentionTask {
  int64_t length;       // positions of the segment
  int64_t first, last;  // the queries [first, last) of a forward task
  int64_t size;         // numbers in a vector of a head; even
  int64_t heads;        // query heads to this key/value head
  float scale;          // factor of the scores
  // The rotary tables, fp32 [length][size / 2], not null. The kernels rotate q and k by these
  // angles when reading, and dq and dk back when writing (RoPE, the two halves of a vector paired).
  const float *cos, *sin;
  HeadVectors<const T> q, k, v;
  HeadVectors<T> y;  // forward writes it, backward reads it
  float* logsumexp;  // [heads][length], strides logsumexp_stride and 1; written and read like y
  int64_t logsumexp_stride;
  HeadVectors<const T> dy;
  HeadVectors<T> dq, dk, dv;
};

template <class T>
struct CpuAttention {
  // Writes y and logsumexp of the queries [first, last). Unless `next` is null, fetches the memory
  // that the task `next` will read into the cache meanwhile.
  void (*forward)(const AttentionTask<T>& task, const AttentionTask<T>* next, float* scratch);
  // Writes dq, dk and dv of the whole segment, from q, k, v, y, logsumexp and dy; `first` and
  // `last` are not read.
  void (*backward)(const AttentionTask<T>& task, const AttentionTask<T>* next, float* scratch);
  // These return the number of floats of `scratch`, which must be 64-byte aligned. `num_queries` is
  // last - first.
  int64_t (*forward_scratch)(int64_t num_queries, int64_t size, int64_t heads);
  int64_t (*backward_scratch)(int64_t length, int64_t size);
};

// Returns the attention of the instruction set of cpu_kernels_isa().
template <class T>
const CpuAttention<T>& cpu_attention();
template <>
const CpuAttention<float>& cpu_attention<float>();
template <>
const CpuAttention<Bf16>& cpu_attention<Bf16>();

}  // namespace lmtrain
