// Keeps the dynamic loss scale of fp16 (Micikevicius et al., 1710.03740): the loss is multiplied by
// a power of two before the backward so that small gradients are not rounded to zero, and the
// gradient is divided by it before anything reads it.
//
// The scale is halved after an overflow and doubled after kInterval updates without one, and stays
// between kFloor and kCeiling. Its state is plain data in state.json.
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
  int64_t good_in_a_row = 0;  // updates since the last overflow, counted anew after kInterval

  bool at_floor() const { return scale <= kFloor; }
  void on_update();    // call it after each update that was applied
  void on_overflow();  // call it for each batch whose gradient overflowed
  bool operator==(const LossScale&) const = default;
};

}  // namespace lmtrain
