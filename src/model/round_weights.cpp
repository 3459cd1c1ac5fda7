#include "model/round_weights.h"

#include <atomic>
#include <cmath>

#include "base/error.h"
#include "base/text.h"
#include "device/torch_headers.h"
#include "device/work_queue.h"

namespace lmtrain {
namespace {

// The scalar conversions of c10 are exact; vectorised ones may take subnormal numbers for zero.
// Returns the index of a number that is too large, or -1.
template <class T>
int64_t round_to(const at::Tensor& from, const at::Tensor& to) {
  const float* in = from.const_data_ptr<float>();
  T* out = to.mutable_data_ptr<T>();
  std::atomic<int64_t> too_large = -1;
  parallel_for_queued(from.numel(), 65536, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      out[i] = static_cast<T>(in[i]);
      if (std::isinf(static_cast<float>(out[i])) && std::isfinite(in[i])) too_large = i;
    }
  });
  return too_large;
}

}  // namespace

std::optional<at::ScalarType> weight_type(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return at::kFloat;
    case DType::kBF16:
      return at::kBFloat16;
    case DType::kF16:
      return at::kHalf;
    default:
      return std::nullopt;
  }
}

at::Tensor rounded_weights(const at::Tensor& values, DType dtype, const std::string& tensor) {
  const std::optional<at::ScalarType> type = weight_type(dtype);
  if (!type) throw Error(ErrorKind::kInternal, str("weights in ", dtype_name(dtype)));
  if (type == at::kFloat) return values;
  at::Tensor result = at::empty_like(values, *type);
  const int64_t too_large = type == at::kHalf ? round_to<c10::Half>(values, result)
                                              : round_to<c10::BFloat16>(values, result);
  if (too_large < 0) return result;
  throw Error(
      ErrorKind::kNumeric,
      str("tensor ", tensor, " holds ", printed("%g", values.const_data_ptr<float>()[too_large]),
          ", which is beyond the largest number of ", dtype_name(dtype), "; export in ",
          type == at::kHalf ? "bf16 or fp32" : "fp32"));
}

int64_t stored_weight_bytes(int64_t masters, CheckpointDType dtype) {
  return dtype == CheckpointDType::kBf16 ? masters + masters / 2 : masters;
}

}  // namespace lmtrain
