// Updates by MARS-AdamW (Yuan et al., 2411.10438), which is AdamW on a gradient whose variance is
// reduced by the one before it:
//
//   c  = g + gamma b1 / (1 - b1) (g - g of the last update)      c <- c / max(1, |c|), by tensor
//   then AdamW's update (adamw.h) with c for g
//
// It is the paper's approximation, which computes no second gradient of a batch, as in the authors'
// code with optimize_1d: every tensor alike, norms and embeddings too. Before the first update the
// last gradient is 0. g is the gradient after clipping. The state is last_grad, and AdamW's exp_avg
// and exp_avg_sq.
#include "device/torch_headers.h"
#include "optim/adamw.h"
#include "optim/clip.h"
#include "optim/make_optimizer.h"

namespace lmtrain {
namespace {

class Mars : public Optimizer {
 public:
  // Updates only the tensors for which `takes` returns true.
  Mars(const OptimizerConfig& config, Parameters& parameters, const ParameterFilter& takes);
  void update(const UpdateStep& step, const at::Tensor& grad) override;
  const std::vector<OptimizerBuffer>& buffers() const override { return buffers_; }

 private:
  Hyperparameters hyperparameters_;
  double gamma_;
  FlatMoments last_;
  AdamW rule_;
  std::vector<ParameterSpec> specs_;
  std::vector<OptimizerBuffer> buffers_;
};

// Divides by the norm where that is above 1. On a CPU its bits do not depend on the number of
// threads; elsewhere it is not waited for.
void limit_norm(const at::Tensor& c) {
  if (c.is_cpu() && c.scalar_type() == at::kFloat) {
    const double norm = l2_norm(c);
    if (norm > 1) c.div_(norm);
    return;
  }
  c.div_(at::linalg_vector_norm(c, 2, {}, /*keepdim=*/false, at::kDouble)
             .clamp_min_(1)
             .to(c.scalar_type()));
}

Mars::Mars(const OptimizerConfig& config, Parameters& parameters, const ParameterFilter& takes)
    : hyperparameters_(config),
      gamma_(config.gamma),
      last_(config, parameters, {"last_grad"}, takes),
      rule_(config, parameters, takes),
      buffers_(last_.buffers()) {
  for (const ParameterSpec& spec : parameters.layout().parameters())
    if (takes(spec)) specs_.push_back(spec);
  buffers_.insert(buffers_.end(), rule_.buffers().begin(), rule_.buffers().end());
}

void Mars::update(const UpdateStep& step, const at::Tensor& grad) {
  const at::NoGradGuard no_grad;
  const double beta1 = hyperparameters_.beta(0);
  for (const FlatRange& range : last_.ranges()) {
    const at::Tensor g = range.of(grad), last = last_.moment(0, range);
    if (step.grad_scale != 1) g.mul_(step.grad_scale);
    const at::Tensor change = g - last;
    last.copy_(g);
    g.add_(change, gamma_ * beta1 / (1 - beta1));
  }
  for (const ParameterSpec& spec : specs_) limit_norm(grad.narrow(0, spec.offset, spec.numel()));
  rule_.update({step.number, step.lr, /*grad_scale=*/1, step.run}, grad);
}

}  // namespace

std::unique_ptr<Optimizer> make_mars(const OptimizerConfig& config, Parameters& parameters,
                                     const ParameterFilter& takes) {
  return std::make_unique<Mars>(config, parameters, takes);
}

}  // namespace lmtrain
