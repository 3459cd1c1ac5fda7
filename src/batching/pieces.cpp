// Cutting documents, see pieces.h; docs/batching.md states the rules.
#include "batching/pieces.h"

#include <algorithm>
#include <array>
#include <bit>
#include <limits>

#include "base/error.h"
#include "base/hash.h"
#include "base/random.h"
#include "base/text.h"

namespace lmtrain {
namespace {

uint64_t as_unsigned(int64_t value) { return static_cast<uint64_t>(value); }

int64_t floor_power(int64_t value) {
  return static_cast<int64_t>(std::bit_floor(as_unsigned(value)));
}
int64_t ceil_power(int64_t value) {
  return static_cast<int64_t>(std::bit_ceil(as_unsigned(value)));
}

// P(T) proportional to 1/T over the powers of two from min to max: with n of them, 2^n - 1 equal
// chances, of which the shortest has 2^(n-1), the next 2^(n-2), ... the longest 1. In integers, so
// that every machine draws the same.
int64_t draw_length(uint64_t bits, int64_t min_length, int64_t max_length) {
  const auto chances = as_unsigned(max_length / min_length) * 2 - 1;
  const auto drawn = static_cast<uint64_t>((static_cast<unsigned __int128>(bits) * chances) >> 64);
  return max_length / floor_power(static_cast<int64_t>(drawn) + 1);
}

}  // namespace

CutRule bucket_cut(uint64_t fingerprint, int64_t min_length, int64_t max_length, bool balanced) {
  return [=](int64_t document, int64_t offset, int64_t remaining) {
    if (remaining < min_length) return min_length;
    if (remaining < max_length) return floor_power(remaining);
    if (!balanced) return max_length;
    const uint64_t place = hash_combine(as_unsigned(document), as_unsigned(offset));
    return draw_length(random_bits(fingerprint, RandomStream::kCut, place), min_length, max_length);
  };
}

CutRule pad_cut(int64_t min_length, int64_t max_length) {
  return [=](int64_t, int64_t, int64_t remaining) {
    return remaining >= max_length ? max_length : std::max(min_length, ceil_power(remaining));
  };
}

PieceRows::PieceRows(const TokenShard& shard, int64_t min_length, const CutRule& cut)
    : shard_(shard), min_length_(min_length) {
  constexpr int64_t kMax32 = std::numeric_limits<uint32_t>::max();
  if (shard.num_documents() > kMax32) {
    throw Error(ErrorKind::kData, str("the corpus has ", shard.num_documents(),
                                      " documents; lmtrain takes up to ", kMax32, " in one"));
  }
  std::array<std::vector<Piece>, 64> pieces;  // by the exponent of the length
  std::array<int64_t, 64> targets{};
  for (int64_t document = 0; document < shard.num_documents(); ++document) {
    const int64_t num_targets = shard.document_size(document) - 1;
    if (num_targets / min_length > kMax32) {
      throw Error(ErrorKind::kData, str("document ", document, " has ", num_targets + 1,
                                        " tokens; cut the text into smaller documents"));
    }
    for (int64_t offset = 0; offset < num_targets;) {
      const int64_t length = cut(document, offset, num_targets - offset);
      const int64_t taken = std::min(length, num_targets - offset);
      const auto exponent = static_cast<size_t>(std::countr_zero(as_unsigned(length)));
      pieces[exponent].push_back(
          {static_cast<uint32_t>(document), static_cast<uint32_t>(offset / min_length)});
      targets[exponent] += taken;
      offset += taken;
    }
  }
  for (size_t exponent = 0; exponent < pieces.size(); ++exponent) {
    if (pieces[exponent].empty()) continue;
    pieces[exponent].shrink_to_fit();
    lengths_.push_back(
        {int64_t{1} << exponent, static_cast<int64_t>(pieces[exponent].size()), targets[exponent]});
    pieces_.push_back(std::move(pieces[exponent]));
  }
}

RowContent PieceRows::fill(size_t index, int64_t row, std::span<int32_t> inputs,
                           std::span<int32_t> targets) const {
  const Piece piece = pieces_[index][static_cast<size_t>(row)];
  const int64_t begin = shard_.document_begin(piece.document) + piece.block * min_length_;
  const int64_t remaining = shard_.document_end(piece.document) - 1 - begin;
  const int64_t num_targets = std::min(static_cast<int64_t>(inputs.size()), remaining);
  shard_.read_tokens(begin, inputs.first(static_cast<size_t>(num_targets)));
  shard_.read_tokens(begin + 1, targets.first(static_cast<size_t>(num_targets)));
  return {piece.document, num_targets};
}

}  // namespace lmtrain
