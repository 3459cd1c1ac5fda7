#include "optim/loss_scale.h"

#include <algorithm>

namespace lmtrain {

void LossScale::on_update() {
  if (++good_in_a_row < kInterval) return;
  scale = std::min(kCeiling, scale * kGrowth);
  good_in_a_row = 0;
}

void LossScale::on_overflow() {
  scale = std::max(kFloor, scale * kBackoff);
  good_in_a_row = 0;
}

}  // namespace lmtrain
