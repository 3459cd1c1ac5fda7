#include "optim/elementwise/schedule_free.h"

#include <cmath>

#include "base/error.h"
#include "base/text.h"
#include "device/torch_headers.h"

namespace lmtrain {

ScheduleFree::ScheduleFree(const OptimizerConfig& config, Parameters& parameters,
                           const ParameterFilter& takes)
    : RangeRule(config, parameters, {"z", "exp_avg_sq"}, takes),
      beta1_(config.betas.at(0)),
      beta2_(config.betas.at(1)),
      eps_(config.eps),
      parameters_(parameters),
      buffers_(RangeRule::buffers()) {
  for (const ParameterSpec& spec : parameters.layout().parameters())
    if (takes(spec)) specs_.push_back(spec);
  const auto count = static_cast<int64_t>(specs_.size());
  weight_sums_ = at::zeros({count}, parameters.master().options());
  for (int64_t i = 0; i < count; ++i) {
    const ParameterSpec& spec = specs_[static_cast<size_t>(i)];
    buffers_.push_back({str("weight_sum.", spec.name), weight_sums_.narrow(0, i, 1)});
  }
}

void ScheduleFree::update(const UpdateStep& step, const at::Tensor& grad) {
  if (parameters_.working().is_same(parameters_.master()))
    throw Error(ErrorKind::kInternal, "schedule_free needs working weights beside the masters");
  if (ranges().empty()) return;  // all tensors are those of other processes
  weight_sums_.add_(step.lr * step.lr);
  RangeRule::update(step, grad);
}

void ScheduleFree::update_range(const UpdateStep& step, const RangeView& view) {
  const at::Tensor z = moment(0, view), v = moment(1, view);
  if (step.number == 1) z.copy_(view.w);
  const double correction = 1 - std::pow(beta2_, static_cast<double>(step.number));
  v.mul_(beta2_).addcmul_(view.g, view.g, 1 - beta2_);
  const at::Tensor root = v.sqrt().div_(std::sqrt(correction)).add_(eps_);
  const double amount = view.lr * hyperparameters().weight_decay(view.range.group, step.run);
  if (amount != 0) z.sub_(y(view.range), amount);
  z.addcdiv_(view.g, root, -view.lr);
  const at::Tensor way = z - view.w;
  // Until a rate counts the average stays where it is: a warm-up may begin at 0, or so near to it
  // that the square of the rate is 0 in fp32, or its reciprocal infinite.
  const at::Tensor c =
      weight_sums_.reciprocal().mul_(step.lr * step.lr).nan_to_num_(0, /*posinf=*/0);
  for (size_t i = 0; i < specs_.size(); ++i) {
    const int64_t first = specs_[i].offset - view.range.first;
    if (first < 0 || first >= view.range.size) continue;
    way.narrow(0, first, specs_[i].numel()).mul_(c[static_cast<int64_t>(i)]);
  }
  view.w.add_(way);
}

at::Tensor ScheduleFree::y(const FlatRange& range) const {
  const at::Tensor x = range.of(parameters_.master());
  return (moments().moment(0, range) - x).mul_(1 - beta1_).add_(x);
}

void ScheduleFree::set_working(const FlatRange& range) {
  range.of(parameters_.working()).copy_(y(range));
}

void ScheduleFree::refresh_working() {
  const at::NoGradGuard no_grad;
  if (ranges().empty()) return;
  const bool has_begun = weight_sums_[0].item<double>() > 0;
  for (const FlatRange& range : ranges()) {
    if (has_begun) {
      set_working(range);
    } else {
      parameters_.refresh_working(range.first, range.size);
    }
  }
}

}  // namespace lmtrain
