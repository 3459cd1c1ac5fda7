#!/usr/bin/env bash
# scripts/kernel_table.sh passes on our kernels, and must see each fault that it is for. Needs nvcc, no GPU.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

"$root/scripts/kernel_table.sh"

cat >"$work/faults.cu" <<'CU'
// An array whose place is known only at run time lies in local memory.
__global__ void with_stack(const int* which, float* out) {
  float values[64];
  for (int i = 0; i < 64; ++i) values[i] = out[i] * out[i + 1];
  for (int i = 0; i < 64; ++i) out[i] = values[which[i]];
}
// More numbers at once than 32 registers hold.
__global__ void __launch_bounds__(1024, 2) spilling(const float* in, float* out) {
  float x[48];
#pragma unroll
  for (int i = 0; i < 48; ++i) x[i] = in[i * 1024 + threadIdx.x];
  __syncthreads();
#pragma unroll
  for (int i = 0; i < 48; ++i) out[i * 1024 + threadIdx.x] = x[i] * x[(i * 7 + 5) % 48] + x[(i + 24) % 48];
}
__global__ void generic(float* in_global, bool in_shared) {
  extern __shared__ float shared[];
  float* sums = in_shared ? shared : in_global;
  sums[threadIdx.x] += 1;
}
__global__ void in_pieces(unsigned short* out) {
  for (int k = 0; k < 8; k += 2) {
    unsigned short* const pair = out + threadIdx.x * 8 + k;
    asm("st.global.v2.u16 [%0], {%1, %1};" ::"l"(pair), "h"(*pair) : "memory");
  }
}
template <class T, int kWidth>
__global__ void narrow(const T* in, T* out) {
  for (int i = 0; i < kWidth; ++i) out[threadIdx.x + i * 32] = in[threadIdx.x + i * 32];
}
template __global__ void narrow<float, 4>(const float*, float*);
CU
if LMTRAIN_KERNELS=$work "$root/scripts/kernel_table.sh" >"$work/table" 2>&1; then
  echo "FAIL: kernels with faults pass"
  exit 1
fi
status=0
for fault in 'with_stack has a stack of' 'spilling spills' 'generic has 2 accesses to an address space' \
  'in_pieces stores packs in' \
  'narrow<float,4> is made for packs of 4 and loads nothing of 16 bytes'; do
  grep -qF "$fault" "$work/table" || { echo "FAIL: not noticed: $fault"; status=1; }
done
[ "$status" -eq 0 ] || cat "$work/table"
exit "$status"
