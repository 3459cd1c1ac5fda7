#include "schedule/warmup.h"

#include <cmath>

namespace lmtrain {
namespace {

// Steps after which a weight has halved, less one. The authors' small number keeps a rate of 0 from
// log(0).
double half_life(double beta) { return std::log(0.5) / std::log(beta + 1e-8) - 1; }
double beta_of(double half_life) { return std::pow(0.5, 1 / (half_life + 1)); }

}  // namespace

double linear_warmup(double begin, double end, double done, double over) {
  if (done >= over) return end;
  const double part = done / over;
  return (1 - part) * begin + part * end;
}

double half_life_warmup(double begin, double end, double done, double over) {
  if (done >= over) return end;
  return beta_of(linear_warmup(half_life(begin), half_life(end), done, over));
}

}  // namespace lmtrain
