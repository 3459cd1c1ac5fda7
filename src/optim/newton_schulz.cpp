#include "optim/newton_schulz.h"

#include <algorithm>
#include <array>

#include "device/device.h"
#include "device/torch_headers.h"

namespace lmtrain {
namespace {

struct Quintic {
  double a, b, c;  // of a x + b x^3 + c x^5
};

constexpr Quintic kJordan = {3.4445, -4.7750, 2.0315};

constexpr double kSafety = 1.01;
constexpr Quintic safely(const Quintic& p) {
  constexpr double kCube = kSafety * kSafety * kSafety;
  return {p.a / kSafety, p.b / kCube, p.c / (kCube * kSafety * kSafety)};
}

// From Algorithm 1 of 2505.16932; the last is that of all later iterations.
constexpr std::array<Quintic, 8> kPolarExpress = {
    safely({8.28721201814563, -23.595886519098837, 17.300387312530933}),
    safely({4.107059111542203, -2.9478499167379106, 0.5448431082926601}),
    safely({3.9486908534822946, -2.908902115962949, 0.5518191394370137}),
    safely({3.3184196573706015, -2.488488024314874, 0.51004894012372}),
    safely({2.300652019954817, -1.6689039845747493, 0.4188073119525673}),
    safely({1.891301407787398, -1.2679958271945868, 0.37680408948524835}),
    safely({1.8750014808534479, -1.2500016453999487, 0.3750001645474248}),
    Quintic{1.875, -1.25, 0.375}};

}  // namespace

at::Tensor newton_schulz(const at::Tensor& u_Bmn, int64_t steps, NsCoefficients coefficients) {
  const bool is_polar = coefficients == NsCoefficients::kPolarExpress;
  const bool is_tall = u_Bmn.size(1) > u_Bmn.size(2);
  const at::Tensor norm_B11 = at::linalg_vector_norm(u_Bmn, 2, {1, 2}, /*keepdim=*/true);
  at::Tensor x_Bmn =
      u_Bmn.div_(is_polar ? norm_B11.mul_(kSafety).add_(1e-7) : norm_B11.clamp_min_(1e-7));
  for (int64_t step = 0; step < steps; ++step) {
    const auto last = static_cast<int64_t>(kPolarExpress.size()) - 1;
    const Quintic& p =
        is_polar ? kPolarExpress[static_cast<size_t>(std::min(step, last))] : kJordan;
    const at::Tensor gram_Bkk = is_tall ? at::bmm(x_Bmn.mT(), x_Bmn) : at::bmm(x_Bmn, x_Bmn.mT());
    const at::Tensor mix_Bkk = at::baddbmm(gram_Bkk, gram_Bkk, gram_Bkk, p.b, p.c);
    x_Bmn =
        is_tall ? at::baddbmm(x_Bmn, x_Bmn, mix_Bkk, p.a) : at::baddbmm(x_Bmn, mix_Bkk, x_Bmn, p.a);
  }
  return x_Bmn;
}

at::ScalarType newton_schulz_dtype(const at::Tensor& weights) {
  if (weights.scalar_type() == at::kDouble) return at::kDouble;
  return resolve_precision("auto", weights.device()).dtype;
}

}  // namespace lmtrain
