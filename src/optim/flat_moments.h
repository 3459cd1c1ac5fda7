// Keeps the moments of an element-wise rule, and the ranges of the flat buffers that the rule
// updates.
//
// Moments have room only for the tensors that the rule updates. Adjacent tensors of one group make
// one range, gaps included: without groups AdamW has two ranges.
#pragma once

#include "device/dispatch.h"
#include "device/element_range.h"
#include "device/work_queue.h"
#include "optim/optimizer.h"
#include "optim/parameter_groups.h"

namespace lmtrain {

// Describes a range of the flat buffers of the parameters, with the same learning rate and weight
// decay.
struct FlatRange : ElementRange {
  int64_t moment_first = 0;  // element of the moments
  ParameterGroup group;
};

class FlatMoments {
 public:
  // Makes one moment for each name, all zero, for the tensors for which `takes` returns true.
  FlatMoments(const OptimizerConfig& config, const Parameters& parameters,
              const std::vector<std::string>& names, const ParameterFilter& takes);

  const std::vector<FlatRange>& ranges() const { return ranges_; }
  const at::Tensor& moment(size_t i) const { return moments_[i]; }
  // Returns the view of moment i that belongs to a range.
  at::Tensor moment(size_t i, const FlatRange& range) const;
  const std::vector<OptimizerBuffer>& buffers() const { return buffers_; }

 private:
  std::vector<FlatRange> ranges_;
  std::vector<at::Tensor> moments_;
  std::vector<OptimizerBuffer> buffers_;
};

// Returns whether fused kernels can update these parameters: the masters are fp32, and device and
// dtype of the working weights have kernels.
bool has_fused_update(const Parameters& parameters);

// Divides the range into blocks, and calls f(offset in the parameters, offset in the moments,
// count) for each block, on all threads at once.
template <class F>
void for_each_block(const FlatRange& range, const F& f) {
  parallel_for_queued(range.size, grain_rows(1), [&](int64_t begin, int64_t end) {
    f(range.first + begin, range.moment_first + begin, end - begin);
  });
}

}  // namespace lmtrain
