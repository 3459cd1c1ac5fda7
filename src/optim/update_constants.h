// Keeps the numbers of an update that its kernels read from memory of the device: learning rate,
// bias corrections, clipping factor. There is one struct of them (kernels/cpu/kernels.h) for each
// range of an element-wise rule.
//
// They lie at the same address for the whole run, so that what is launched is the same in every
// update, and a captured graph of it takes the new numbers.
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

  // Sets the numbers of every range: those of `common`, with step.grad_scale, the range's learning
  // rate and weight decay, and how it decays put in. Queues the copy; everything that is launched
  // later reads the new ones.
  void set(Constants common, const std::vector<FlatRange>& ranges,
           const Hyperparameters& hyperparameters, const UpdateStep& step) {
    if (ranges.empty()) return;  // all tensors of the rule are those of other processes
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

  // Returns the numbers of a range, which are in memory of the device.
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
