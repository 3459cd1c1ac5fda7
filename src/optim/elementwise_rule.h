// The base of the element-wise rules with fused kernels: a RangeRule that updates each range of
// parameters (FlatRange) by one kernel.
//
// `Kernel` names the kernels of a rule:
//   Constants     the numbers of an update that the kernels read
//   kNumMoments   the number of moments, in the order of `names`
//   cpu<T>()      the CPU kernel for working weights of element type T (kernels/cpu/kernels.h)
//   launch(...)   launches its twin on a GPU (kernels/cuda/kernels.h)
// A rule defines numbers(), and update_range() for parameters without fused kernels
// (has_fused_update).
#pragma once

#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "device/device.h"
#include "optim/range_rule.h"

namespace lmtrain {

// Keeps the constants of an update in device memory, where the kernels read them: learning rate,
// bias corrections, clipping factor. Each range has one struct of constants
// (kernels/cpu/kernels.h).
//
// The constants stay at the same address for the whole run. So every update launches the same
// kernels with the same arguments, and a captured graph reads the new constants.
template <class Constants>
class UpdateConstants {
 public:
  UpdateConstants(size_t num_ranges, const at::Device& device)
      : on_device_(host_buffer({bytes_of(num_ranges)}, at::kByte, at::kCPU).to(device)) {}

  // Sets the constants of every range. Each range gets a copy of `common` with step.grad_scale, its
  // own learning rate and weight decay, and the kind of decay. Queues the copy to the device;
  // kernels launched later read the new constants.
  void set(Constants common, const std::vector<FlatRange>& ranges,
           const Hyperparameters& hyperparameters, const UpdateStep& step) {
    if (ranges.empty()) return;  // other processes own all tensors of the rule
    common.grad_scale = static_cast<float>(step.grad_scale);
    common.cautious_decay = hyperparameters.decays_cautiously();
    std::vector<Constants> of_ranges;
    for (const FlatRange& range : ranges) {
      common.lr = static_cast<float>(step.lr * range.group.lr_ratio);
      common.weight_decay = static_cast<float>(range.group.weight_decay);
      of_ranges.push_back(common);
    }
    const at::Tensor host =
        host_buffer({bytes_of(of_ranges.size())}, at::kByte, on_device_.device());
    std::memcpy(host.data_ptr(), of_ranges.data(), host.nbytes());
    on_device_.copy_(host, /*non_blocking=*/true);
  }

  // Returns the constants of a range, a pointer to device memory.
  const Constants* of(size_t range) const {
    return static_cast<const Constants*>(on_device_.data_ptr()) + range;
  }

 private:
  static int64_t bytes_of(size_t num_ranges) {
    return static_cast<int64_t>(num_ranges * sizeof(Constants));
  }

  at::Tensor on_device_;
};

template <class Kernel>
class ElementwiseRule : public RangeRule, private CapturableUpdate {
 public:
  using Constants = typename Kernel::Constants;

  void update(const UpdateStep& step, const at::Tensor& grad) final {
    if (!has_fused_update(parameters())) return RangeRule::update(step, grad);
    set_constants(step);
    apply(grad);
  }
  CapturableUpdate* capturable() final { return has_fused_update(parameters()) ? this : nullptr; }

 protected:
  // Makes one moment for each name, for the tensors for which `takes` returns true.
  ElementwiseRule(const OptimizerConfig& config, Parameters& parameters,
                  const std::vector<std::string>& names, const ParameterFilter& takes)
      : RangeRule(config, parameters, names, takes),
        constants_(moments().ranges().size(), parameters.master().device()) {}

 private:
  // Returns the numbers of an update, except those that UpdateConstants sets for each range.
  virtual Constants numbers(const UpdateStep& step) const = 0;

  void set_constants(const UpdateStep& step) final {
    constants_.set(numbers(step), moments().ranges(), hyperparameters(), step);
  }
  void apply(const at::Tensor& grad) final {
    for (size_t i = 0; i < moments().ranges().size(); ++i) {
      apply_kernel(moments().ranges()[i], constants_.of(i), grad,
                   std::make_index_sequence<Kernel::kNumMoments>());
    }
  }

  template <size_t... kMoment>
  void apply_kernel(const FlatRange& range, const Constants* constants, const at::Tensor& grad,
                    std::index_sequence<kMoment...>) {
    const at::Tensor& master = parameters().master();
    const at::Tensor& working = parameters().working();
    const FlatMoments& all = moments();
    on_cpu(working, [&]<class T>(T) {
      for_each_block(range, [&](int64_t offset, int64_t moment, int64_t count) {
        Kernel::template cpu<T>()(
            elements<float>(master) + offset, (elements<float>(all.moment(kMoment)) + moment)...,
            elements<float>(grad) + offset, elements<T>(working) + offset, count, *constants);
      });
    });
    on_cuda(working, [&](const auto& call) {
      Kernel::launch(
          call, elements<float>(range.of(master)), elements<float>(all.moment(kMoment, range))...,
          elements<float>(range.of(grad)), range.of(working).data_ptr(), range.size, constants);
    });
  }

  UpdateConstants<Constants> constants_;
};

}  // namespace lmtrain
