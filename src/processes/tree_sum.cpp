#include "processes/tree_sum.h"

#include <bit>

#include "base/error.h"
#include "base/text.h"
#include "device/torch_headers.h"

namespace lmtrain {
namespace {

// A range of the flat tensor: before a round, and the halves that are kept and given in it.
struct Round {
  int partner;
  at::Tensor kept, given;
};

}  // namespace

void tree_sum(const at::Tensor& flat, int rank, int count, const Exchange& exchange) {
  if (!std::has_single_bit(static_cast<unsigned>(count))) {
    throw Error(ErrorKind::kInternal, str("a tree of ", count, " ranks"));
  }
  std::vector<Round> rounds;
  at::Tensor mine = flat;
  const at::Tensor received = at::empty({(flat.numel() + 1) / 2}, flat.options());
  for (int bit = 1; bit < count; bit *= 2) {
    const int64_t half = mine.numel() / 2;
    const at::Tensor low = mine.narrow(0, 0, half);
    const at::Tensor high = mine.narrow(0, half, mine.numel() - half);
    const bool keeps_low = (rank & bit) == 0;
    const Round round{rank ^ bit, keeps_low ? low : high, keeps_low ? high : low};
    const at::Tensor theirs = received.narrow(0, 0, round.kept.numel());
    exchange(round.partner, round.given, theirs);
    round.kept.add_(theirs);  // a + b and b + a have the same bits
    rounds.push_back(round);
    mine = round.kept;
  }
  for (auto round = rounds.rbegin(); round != rounds.rend(); ++round)
    exchange(round->partner, round->kept, round->given);
}

}  // namespace lmtrain
