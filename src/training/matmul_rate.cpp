#include "training/matmul_rate.h"

#include <chrono>

#include "base/elapsed.h"
#include "device/device_memory.h"
#include "device/torch_headers.h"
#include "ops/matmul.h"

namespace lmtrain {

double best_matmul_rate(const at::Device& device, at::ScalarType dtype) {
  const std::vector<int64_t> sizes =
      device.is_cpu() ? std::vector<int64_t>{768, 1024, 1536} : std::vector<int64_t>{4096, 8192};
  constexpr int kRepeats = 8;  // the first two of a size also build what the library caches
  const at::InferenceMode no_gradient;
  double best = 0;
  for (const int64_t size : sizes) {
    const auto options = at::TensorOptions(device).dtype(dtype);
    // Random numbers: a GPU draws less power on equal ones, and then multiplies faster than in a
    // step.
    const at::Tensor a = at::randn({size, size}, options);
    const at::Tensor b = at::randn({size, size}, options);
    for (int repeat = 0; repeat < kRepeats; ++repeat) {
      synchronize(device);
      const auto begin = std::chrono::steady_clock::now();
      const at::Tensor c = repeat % 2 == 0 ? product(a, b.t()) : at::mm(a, b.t());
      synchronize(device);
      const double seconds = seconds_since(begin);
      const auto n = static_cast<double>(size);
      best = std::max(best, 2 * n * n * n / seconds);
    }
  }
  return best;
}

}  // namespace lmtrain
