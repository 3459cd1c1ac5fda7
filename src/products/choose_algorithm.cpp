#include "products/choose_algorithm.h"

#include <algorithm>

namespace lmtrain {
namespace {

struct MeasuredAlgorithm {
  cuda::ProductAlgorithm algorithm;
  std::vector<double> seconds;
  bool failed = false;
};

double median(const MeasuredAlgorithm& one) {
  std::vector<double> seconds = one.seconds;
  std::sort(seconds.begin(), seconds.end());
  return seconds[seconds.size() / 2];
}

}  // namespace

std::optional<ChosenAlgorithm> choose_algorithm(ProductAlgorithms& from,
                                                const cuda::MatrixProduct& product) {
  std::vector<MeasuredAlgorithm> measured;
  for (const cuda::ProductAlgorithm& algorithm : from.algorithms(product))
    measured.push_back({algorithm, {}});
  for (int round = 0; round < kProductRounds; ++round) {
    for (MeasuredAlgorithm& one : measured) {
      if (one.failed) continue;
      const std::optional<double> seconds = from.seconds(product, one.algorithm);
      one.failed = !seconds;
      one.seconds.push_back(seconds.value_or(0));
    }
  }
  std::erase_if(measured, [](const MeasuredAlgorithm& one) { return one.failed; });
  if (measured.empty()) return std::nullopt;
  double fastest = median(measured.front());
  for (const MeasuredAlgorithm& one : measured) fastest = std::min(fastest, median(one));
  for (const MeasuredAlgorithm& one : measured) {
    if (median(one) <= fastest * (1 + kNearTie))
      return ChosenAlgorithm{one.algorithm, median(one), median(measured.front())};
  }
  return std::nullopt;  // times that are no numbers
}

}  // namespace lmtrain
