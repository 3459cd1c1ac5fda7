#include "optim/newton_schulz.h"

#include "device/device.h"
#include "device/torch_headers.h"

namespace lmtrain {

at::Tensor newton_schulz(at::Tensor x_Bmn, int64_t steps) {
  constexpr double kA = 3.4445, kB = -4.7750, kC = 2.0315;
  for (int64_t step = 0; step < steps; ++step) {
    const at::Tensor gram_Bmm = at::bmm(x_Bmn, x_Bmn.mT());
    const at::Tensor mix_Bmm = at::baddbmm(gram_Bmm, gram_Bmm, gram_Bmm, kB, kC);
    x_Bmn = at::baddbmm(x_Bmn, mix_Bmm, x_Bmn, kA);
  }
  return x_Bmn;
}

at::ScalarType newton_schulz_dtype(const at::Tensor& weights) {
  if (weights.scalar_type() == at::kDouble) return at::kDouble;
  return resolve_precision("auto", weights.device()).dtype;
}

}  // namespace lmtrain
