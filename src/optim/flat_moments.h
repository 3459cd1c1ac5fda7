// Keeps the moments of an element-wise rule, and the ranges of the flat buffers that it updates.
//
// The rule may serve only some of the tensors; its moments then have room for these alone. Adjacent
// tensors of one group make one range, gaps included, so that without groups AdamW is two loops
// over one array.
#pragma once

#include "device/dispatch.h"
#include "device/work_queue.h"
#include "optim/optimizer.h"
#include "optim/parameter_groups.h"

namespace lmtrain {

// Describes a range of elements with the same learning rate and weight decay.
struct FlatRange {
  int64_t first = 0;  // in the buffers of the parameters
  int64_t size = 0;
  int64_t moment_first = 0;  // in the moments
  ParameterGroup group;

  // Returns a view of this range in `flat`, a flat buffer of the parameters.
  at::Tensor of(const at::Tensor& flat) const;
};

class FlatMoments {
 public:
  // Makes one moment for each name, all zero, for the tensors for which `takes` returns true.
  FlatMoments(const OptimizerConfig& config, const Parameters& parameters,
              const std::vector<std::string>& names, const ParameterFilter& takes);

  const std::vector<FlatRange>& ranges() const { return ranges_; }
  const at::Tensor& moment(size_t i) const { return moments_[i]; }
  // Returns the part of moment i that belongs to a range.
  at::Tensor moment(size_t i, const FlatRange& range) const;
  const std::vector<OptimizerBuffer>& buffers() const { return buffers_; }

 private:
  std::vector<FlatRange> ranges_;
  std::vector<at::Tensor> moments_;
  std::vector<OptimizerBuffer> buffers_;
};

// Returns whether the fused kernels serve these parameters: fp32 masters, and working weights on a
// device and in a dtype that has kernels.
bool has_fused_update(const Parameters& parameters);

// Calls f(offset in the parameters, offset in the moments, count) for pieces of the range, on all
// threads.
template <class F>
void for_each_piece(const FlatRange& range, const F& f) {
  parallel_for_queued(range.size, grain_rows(1), [&](int64_t begin, int64_t end) {
    f(range.first + begin, range.moment_first + begin, end - begin);
  });
}

}  // namespace lmtrain
