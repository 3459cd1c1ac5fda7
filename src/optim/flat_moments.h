// The moments of an element-wise rule, and the ranges of the flat buffers it updates.
//
// The rule may serve only some of the tensors; its moments then have room for these alone. Adjacent
// tensors of one group make one range, so that without groups AdamW is two loops over one array.
#pragma once

#include <functional>

#include "device/dispatch.h"
#include "device/work_queue.h"
#include "optim/optimizer.h"
#include "optim/parameter_groups.h"

namespace lmtrain {

struct FlatRange {
  int64_t first = 0;  // in the buffers of the parameters
  int64_t size = 0;
  int64_t moment_first = 0;  // in the moments
  ParameterGroup group;

  // Its part of a flat buffer of the parameters.
  at::Tensor of(const at::Tensor& flat) const;
};

using ParameterFilter = std::function<bool(const ParameterSpec&)>;

class FlatMoments {
 public:
  // One moment for each name, for the tensors that `takes` says.
  FlatMoments(const OptimizerConfig& config, const Parameters& parameters,
              const std::vector<std::string>& names, const ParameterFilter& takes);

  const std::vector<FlatRange>& ranges() const { return ranges_; }
  const at::Tensor& moment(size_t i) const { return moments_[i]; }
  // Its part that belongs to a range.
  at::Tensor moment(size_t i, const FlatRange& range) const;
  const std::vector<OptimizerBuffer>& buffers() const { return buffers_; }

 private:
  std::vector<FlatRange> ranges_;
  std::vector<at::Tensor> moments_;
  std::vector<OptimizerBuffer> buffers_;
};

inline bool every_parameter(const ParameterSpec&) { return true; }

// Whether the fused kernels serve these parameters.
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
