#include "optim/ownership.h"

#include <cmath>

#include "optim/parameter_groups.h"

namespace lmtrain {
namespace {

// An element-wise rule moves some 28 bytes for each element, in the time of as many multiplications
// and additions of a matrix product.
constexpr double kElement = 300;

// The multiplications of the matrix products of one update.
double products_of(const OptimizerConfig& optimizer, const ParameterSpec& spec) {
  if (spec.shape.size() != 2) return 0;
  const auto short_side = static_cast<double>(std::min(spec.shape[0], spec.shape[1]));
  const auto long_side = static_cast<double>(std::max(spec.shape[0], spec.shape[1]));
  if (optimizer.type == OptimizerType::kMuon && is_hidden_matrix(spec)) {
    const double step = short_side * short_side * (2 * long_side + short_side);
    return static_cast<double>(optimizer.ns_steps) * step;
  }
  if (optimizer.type != OptimizerType::kSoap) return 0;
  double products = 0;
  for (const size_t side : {size_t{0}, size_t{1}}) {
    const bool rotates =
        (side == 1 || is_hidden_matrix(spec)) && spec.shape[side] <= optimizer.max_precond_dim;
    if (!rotates) continue;
    const auto size = static_cast<double>(spec.shape[side]);
    // To rotate, to rotate back, and to add to the preconditioner; now and then a new basis, by a
    // product and a decomposition.
    products += 3 * size * short_side * long_side;
    products += 3 * size * size * size / static_cast<double>(optimizer.precondition_frequency);
  }
  return products;
}

double cost_of(const OptimizerConfig& optimizer, const ParameterSpec& spec) {
  return kElement * static_cast<double>(spec.numel()) + products_of(optimizer, spec);
}

}  // namespace

std::vector<int64_t> cut_tensors(const ParameterLayout& layout, const OptimizerConfig& optimizer,
                                 int count) {
  const std::vector<ParameterSpec>& specs = layout.parameters();
  double left = 0;
  for (const ParameterSpec& spec : specs) left += cost_of(optimizer, spec);
  std::vector<int64_t> cuts = {0};
  size_t next = 0;
  for (int range = 0; range < count; ++range) {
    const double share = left / (count - range);
    const bool is_last = range + 1 == count;
    double taken = 0;
    for (bool is_first = true; next < specs.size(); ++next, is_first = false) {
      const double cost = cost_of(optimizer, specs[next]);
      const bool is_nearer = std::abs(taken + cost - share) <= std::abs(taken - share);
      if (!is_first && !is_last && !is_nearer) break;
      taken += cost;
    }
    left -= taken;
    cuts.push_back(next < specs.size() ? specs[next].offset : layout.flat_size());
  }
  return cuts;
}

}  // namespace lmtrain
