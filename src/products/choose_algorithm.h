// The rule by which the algorithm of a product is chosen. It knows neither a GPU nor a library.
#pragma once

#include <optional>
#include <vector>

#include "kernels/cuda/cublas_lt.h"

namespace lmtrain {

// The algorithms that can compute a product, and the time that each takes.
class ProductAlgorithms {
 public:
  virtual ~ProductAlgorithms() = default;
  // Returns the algorithms for a product, the one that is expected to be the fastest first.
  virtual std::vector<cuda::ProductAlgorithm> algorithms(const cuda::MatrixProduct& product) = 0;
  // Computes a product by an algorithm and returns the seconds that it took; nothing where it
  // failed. `product` is that of the last call of algorithms().
  virtual std::optional<double> seconds(const cuda::MatrixProduct& product,
                                        const cuda::ProductAlgorithm& algorithm) = 0;
};

// How often each algorithm is measured.
inline constexpr int kProductRounds = 3;
// The part of the shortest time within which an earlier algorithm wins: less is noise, which would
// give every run an algorithm of its own.
inline constexpr double kNearTie = 0.02;

// The algorithm that was chosen for a product, and its time beside that of the first one.
struct ChosenAlgorithm {
  cuda::ProductAlgorithm algorithm;
  double seconds = 0;           // its median
  double seconds_of_first = 0;  // that of the first algorithm that did not fail
};

// Returns the algorithm with the least median of kProductRounds times, or one that is expected to
// be faster and whose median is at most kNearTie longer. The times are taken in turns, since the
// clock of a GPU changes as it warms up. An algorithm that fails once is left out. Returns nothing
// where none is left.
std::optional<ChosenAlgorithm> choose_algorithm(ProductAlgorithms& from,
                                                const cuda::MatrixProduct& product);

}  // namespace lmtrain
