// Names that nobody else has, for runs, attempts and messages between processes.
#pragma once

#include <cstdint>
#include <random>
#include <string>

#include "base/hash.h"

namespace lmtrain {

// Draws 128 bits from the random device of the system; returns 32 hexadecimal digits.
inline std::string random_id() {
  std::random_device random;
  const auto draw = [&] { return uint64_t{random()} << 32 | random(); };
  const uint64_t low = draw();
  return Hash128{low, draw()}.hex();
}

}  // namespace lmtrain
