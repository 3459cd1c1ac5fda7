// The base of the element-wise rules keeps their moments, and makes an update with one fused kernel
// for each range of parameters (FlatRange).
//
// `Kernel` names the kernels of a rule:
//   Constants     the numbers of an update that they read
//   kNumMoments   the moments they take, in the order of the names given
//   cpu<T>()      the one for working weights of element type T (kernels/cpu/kernels.h)
//   launch(...)   the launch of its twin on a GPU (kernels/cuda/kernels.h)
// The rule itself says what the numbers are, and how it is computed by ATen where there is no fused
// kernel.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "optim/flat_moments.h"
#include "optim/hyperparameters.h"
#include "optim/update_constants.h"

namespace lmtrain {

template <class Kernel>
class ElementwiseRule : public Optimizer, private CapturableUpdate {
 public:
  using Constants = typename Kernel::Constants;

  void update(const UpdateStep& step, const at::Tensor& grad) final {
    if (!has_fused_update(parameters_)) return update_aten(step, grad);
    set_constants(step);
    apply(grad);
  }
  CapturableUpdate* capturable() final { return has_fused_update(parameters_) ? this : nullptr; }
  const std::vector<OptimizerBuffer>& buffers() const final { return moments_.buffers(); }

 protected:
  // Makes one moment for each name, for the tensors for which `takes` returns true.
  ElementwiseRule(const OptimizerConfig& config, Parameters& parameters,
                  const std::vector<std::string>& names, const ParameterFilter& takes)
      : hyperparameters_(config),
        parameters_(parameters),
        moments_(config, parameters, names, takes),
        constants_(moments_.ranges().size(), parameters.master().device()) {}

  const Hyperparameters& hyperparameters() const { return hyperparameters_; }
  Parameters& parameters() { return parameters_; }
  const FlatMoments& moments() const { return moments_; }

 private:
  // Returns the numbers of an update, except those that UpdateConstants sets for each range.
  virtual Constants numbers(const UpdateStep& step) const = 0;
  virtual void update_aten(const UpdateStep& step, const at::Tensor& grad) = 0;

  void set_constants(const UpdateStep& step) final {
    constants_.set(numbers(step), moments_.ranges(), hyperparameters_, step);
  }
  void apply(const at::Tensor& grad) final {
    for (size_t i = 0; i < moments_.ranges().size(); ++i) {
      apply_kernel(moments_.ranges()[i], constants_.of(i), grad,
                   std::make_index_sequence<Kernel::kNumMoments>());
    }
  }

  template <size_t... kMoment>
  void apply_kernel(const FlatRange& range, const Constants* constants, const at::Tensor& grad,
                    std::index_sequence<kMoment...>) {
    const at::Tensor& master = parameters_.master();
    const at::Tensor& working = parameters_.working();
    on_cpu(working, [&]<class T>(T) {
      for_each_piece(range, [&](int64_t offset, int64_t moment, int64_t count) {
        Kernel::template cpu<T>()(elements<float>(master) + offset,
                                  (elements<float>(moments_.moment(kMoment)) + moment)...,
                                  elements<float>(grad) + offset, elements<T>(working) + offset,
                                  count, *constants);
      });
    });
    on_cuda(working, [&](const auto& call) {
      Kernel::launch(call, elements<float>(range.of(master)),
                     elements<float>(moments_.moment(kMoment, range))...,
                     elements<float>(range.of(grad)), range.of(working).data_ptr(), range.size,
                     constants);
    });
  }

  Hyperparameters hyperparameters_;
  Parameters& parameters_;
  FlatMoments moments_;
  UpdateConstants<Constants> constants_;
};

}  // namespace lmtrain
