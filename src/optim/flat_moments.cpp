#include "optim/flat_moments.h"

#include "base/text.h"
#include "device/torch_headers.h"

namespace lmtrain {

FlatMoments::FlatMoments(const OptimizerConfig& config, const Parameters& parameters,
                         const std::vector<std::string>& names, const ParameterFilter& takes) {
  const ParameterLayout& layout = parameters.layout();
  const std::vector<ParameterSpec>& specs = layout.parameters();
  struct Slice {
    const ParameterSpec* spec;
    int64_t moment;
  };
  std::vector<Slice> slices;
  int64_t moment_size = 0;
  for (size_t i = 0; i < specs.size(); ++i) {
    if (!takes(specs[i])) continue;
    const int64_t first = specs[i].offset;
    // A range includes the gap after a tensor: its weights, gradient and moments are zero and stay
    // zero.
    const int64_t end = i + 1 < specs.size() ? specs[i + 1].offset : layout.flat_size();
    const ParameterGroup group = group_of(config, specs[i]);
    const bool continues =
        !ranges_.empty() && ranges_.back().group == group && ranges_.back().end() == first;
    if (!continues) ranges_.push_back({{first, 0}, moment_size, group});
    ranges_.back().size += end - first;
    slices.push_back({&specs[i], moment_size});
    moment_size += end - first;
  }
  for (const std::string& name : names) {
    const at::Tensor moment = at::zeros({moment_size}, parameters.master().options());
    moments_.push_back(moment);
    for (const Slice& slice : slices) {
      const ParameterSpec& spec = *slice.spec;
      buffers_.push_back({str(name, ".", spec.name),
                          moment.narrow(0, slice.moment, spec.numel()).view(spec.shape)});
    }
  }
}

at::Tensor FlatMoments::moment(size_t i, const FlatRange& range) const {
  return moments_[i].narrow(0, range.moment_first, range.size);
}

bool has_fused_update(const Parameters& parameters) {
  return parameters.master().scalar_type() == at::kFloat && has_kernel(parameters.working());
}

}  // namespace lmtrain
