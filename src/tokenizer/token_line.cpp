#include "tokenizer/token_line.h"

#include <algorithm>

#include "base/error.h"
#include "base/text.h"

namespace lmtrain {
namespace {

constexpr uint64_t kMostSlots = 2'000'000'000;

}  // namespace

TokenLine::TokenLine(uint64_t num_slots) {
  if (num_slots > kMostSlots) {
    throw Error(
        ErrorKind::kData,
        str("the words of the text have ", num_slots, " characters, more than the ", kMostSlots,
            " that a tokenizer can be trained on; lower tokenizer.train.sample"));
  }
  slots_.reserve(num_slots);
}

uint32_t TokenLine::add_kind(uint32_t num_characters) {
  lengths_.push_back(num_characters);
  return static_cast<uint32_t>(lengths_.size() - 1);
}

void TokenLine::begin_weight(int64_t weight) {
  if (stretches_.empty() || stretches_.back().weight != weight)
    stretches_.push_back({size(), weight});
}

int64_t TokenLine::weight_at(uint32_t slot) {
  const bool is_here = slot >= stretches_[stretch_].begin &&
                       (stretch_ + 1 == stretches_.size() || slot < stretches_[stretch_ + 1].begin);
  if (!is_here) {
    const auto after = std::upper_bound(stretches_.begin(), stretches_.end(), slot,
                                        [](uint32_t s, const Stretch& x) { return s < x.begin; });
    stretch_ = static_cast<size_t>(after - stretches_.begin()) - 1;
  }
  return stretches_[stretch_].weight;
}

}  // namespace lmtrain
