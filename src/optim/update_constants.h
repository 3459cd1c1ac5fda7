// Keeps the constants of an update in device memory, where its kernels read them: learning rate,
// bias corrections, clipping factor. Each range of an element-wise rule has one struct of constants
// (kernels/cpu/kernels.h).
//
// The constants stay at the same address for the whole run. So every update launches the same
// kernels with the same arguments, and a captured graph reads the new constants.
#pragma once

#include <cstring>
#include <vector>

#include "device/device.h"
#include "optim/flat_moments.h"
#include "optim/hyperparameters.h"

namespace lmtrain {

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

}  // namespace lmtrain
