#include "ops/weight_gradient.h"

#include <atomic>

#include "base/error.h"
#include "device/torch_headers.h"
#include "ops/accumulate.h"
#include "ops/matmul.h"

namespace lmtrain {
namespace {

// Autograd's threads ask for it too.
std::atomic<GradientSums*> current{nullptr};

}  // namespace

void add_product(const at::Tensor& a_MK, const at::Tensor& b_KN, const at::Tensor& sum_MN,
                 bool first) {
  if (!sum_MN.is_cuda()) {
    accumulate(product(a_MK, b_KN), sum_MN.view(-1), first);
    return;
  }
  const at::NoGradGuard no_grad;
  at::Tensor sum = sum_MN;
  at::addmm_out(sum, sum, a_MK, b_KN, sum.scalar_type(), /*beta=*/first ? 0 : 1, /*alpha=*/1);
}

GradientSums::GradientSums() {
  GradientSums* none = nullptr;
  if (!current.compare_exchange_strong(none, this))
    throw Error(ErrorKind::kInternal, "gradients of a backward are summed inside another backward");
}

GradientSums::~GradientSums() { current = nullptr; }

void GradientSums::expect(const at::Tensor& weight, const at::Tensor& sum, bool first) {
  sums_[weight.data_ptr()] = {sum.view(weight.sizes()), first};
}

bool GradientSums::has(const at::Tensor& weight) const {
  const auto found = sums_.find(weight.data_ptr());
  return found != sums_.end() && found->second.added;
}

at::Tensor weight_gradient(const at::Tensor& dy_NO, const at::Tensor& x_NI,
                           const at::Tensor& weight_OI) {
  if (GradientSums* const sums = current) {
    const auto found = sums->sums_.find(weight_OI.data_ptr());
    if (found != sums->sums_.end()) {
      GradientSums::Sum& sum = found->second;
      add_product(dy_NO.t(), x_NI, sum.values, sum.first && !sum.added);
      sum.added = true;
      return {};
    }
  }
  return product(dy_NO.t(), x_NI);
}

}  // namespace lmtrain
