#include "distributed/ownership.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "model/module_weights.h"
#include "optim/parameter_groups.h"

namespace lmtrain {
namespace {

// An element-wise rule moves some 28 bytes for each element. In that time a matrix product makes
// about so many multiplications and additions.
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

// Holds the cost of the tensors that each owner still lacks of an equal share.
class Shares {
 public:
  Shares(double total, int count) : lacking_(static_cast<size_t>(count), total / count) {}

  // Divides neighbouring tensors of these costs, the more to an owner the more it lacks. Returns
  // how many tensors each owner takes.
  std::vector<size_t> divide(const std::vector<double>& costs) {
    std::vector<double> weights;
    for (const double lacking : lacking_) weights.push_back(std::max(lacking, 0.0));
    double left = std::accumulate(costs.begin(), costs.end(), 0.0);
    double wanting = std::accumulate(weights.begin(), weights.end(), 0.0);
    std::vector<size_t> taken(lacking_.size());
    size_t next = 0;
    for (size_t owner = 0; owner < lacking_.size(); ++owner) {
      const bool is_last = owner + 1 == lacking_.size();
      const double share = wanting > 0 ? left * weights[owner] / wanting : 0;
      double sum = 0;
      for (; next < costs.size(); ++next, ++taken[owner]) {
        const bool is_nearer = std::abs(sum + costs[next] - share) <= std::abs(sum - share);
        if (!is_last && !is_nearer) break;
        sum += costs[next];
      }
      left -= sum;
      wanting -= weights[owner];
      lacking_[owner] -= sum;
    }
    return taken;
  }

 private:
  std::vector<double> lacking_;
};

// A layer has seven matrices: enough for four owners.
int64_t layers_of_chunk(int count) { return (count + 3) / 4; }

}  // namespace

std::vector<std::vector<int64_t>> cut_chunks(const ParameterLayout& layout,
                                             const OptimizerConfig& optimizer, int count) {
  const std::vector<ElementRange> chunks = backward_chunks(layout, layers_of_chunk(count));
  std::vector<std::vector<const ParameterSpec*>> tensors(chunks.size());
  double total = 0;
  for (const ParameterSpec& spec : layout.parameters()) {
    total += cost_of(optimizer, spec);
    for (size_t i = 0; i < chunks.size(); ++i) {
      if (chunks[i].contains(spec.offset)) tensors[i].push_back(&spec);
    }
  }
  // Chunks of few tensors are divided first, so that the other chunks can even out the shares.
  std::vector<size_t> order(chunks.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return tensors[a].size() < tensors[b].size(); });
  std::vector<std::vector<int64_t>> cuts(chunks.size());
  Shares shares(total, count);
  for (const size_t i : order) {
    std::vector<double> costs;
    for (const ParameterSpec* const spec : tensors[i]) costs.push_back(cost_of(optimizer, *spec));
    cuts[i].push_back(chunks[i].first);
    size_t next = 0;
    for (const size_t taken : shares.divide(costs)) {
      next += taken;
      cuts[i].push_back(next < tensors[i].size() ? tensors[i][next]->offset : chunks[i].end());
    }
  }
  return cuts;
}

}  // namespace lmtrain
