// What tests set and see of the library in the place of cuBLASLt's (stand_in_cublas_lt.cpp).
#pragma once

#include <cstddef>
#include <cstdint>

namespace lmtrain::testing {

struct StandInCublasLt {
  size_t version = 130100;
  // Algorithms for a product. Number `refused` fails when it multiplies, and number `wrong`
  // computes another product, where these are not negative; `slow` ones take longer than the
  // others. From `served` on none serves the device any more.
  int algorithms = 8, refused = -1, wrong = -1, served = 64;
  unsigned slow = 0;        // bit i: number i
  size_t workspace = 1000;  // bytes that each needs
  // What happened.
  int64_t heuristics = 0, products = 0;
  int64_t products_by[64] = {};  // by the number of the algorithm
  // Preferences and descriptions that were not what the library is to be asked for.
  int64_t surprises = 0;
};
StandInCublasLt& stand_in_cublas_lt();

// What algorithm number `number` multiplies the sums of a product by.
constexpr double factor_of_algorithm(int number) { return 1 + number / 512.0; }

}  // namespace lmtrain::testing
