// Keeps the dynamic loss scale of fp16 (Micikevicius et al., 1710.03740), a power of two. A step
// multiplies the loss by it before the backward, so that small gradients do not round to zero, and
// then divides the gradient by it.
//
// An overflow halves the scale; kInterval updates without one double it. It stays between kFloor
// and kCeiling. state.json holds it.
#pragma once

#include <cstdint>

namespace lmtrain {

struct LossScale {
  static constexpr double kGrowth = 2;
  static constexpr double kBackoff = 0.5;
  static constexpr int64_t kInterval = 2000;
  static constexpr double kFloor = 1;
  static constexpr double kCeiling = 16777216;  // 2^24

  double scale = 65536;
  int64_t good_in_a_row = 0;  // updates since the scale last changed, or the last overflow

  bool at_floor() const { return scale <= kFloor; }
  void on_update();    // call it after each update that was applied
  void on_overflow();  // call it for each batch whose gradient overflowed
  bool operator==(const LossScale&) const = default;
};

}  // namespace lmtrain
