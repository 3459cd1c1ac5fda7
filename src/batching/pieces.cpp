// Cutting documents, see pieces.h; docs/batching.md states the rules.
#include "batching/pieces.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <numeric>
#include <utility>

#include "base/error.h"
#include "base/hash.h"
#include "base/random.h"
#include "base/text.h"
#include "batching/best_fit.h"

namespace lmtrain {
namespace {

constexpr int64_t kMax32 = std::numeric_limits<uint32_t>::max();

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
  const auto length = [=](int64_t document, int64_t offset, int64_t remaining) {
    if (remaining < min_length) return min_length;
    if (remaining < max_length) return floor_power(remaining);
    if (!balanced) return max_length;
    const uint64_t index = hash_combine(as_unsigned(document), as_unsigned(offset));
    return draw_length(random_bits(fingerprint, RandomStream::kCut, index), min_length, max_length);
  };
  return {length, min_length, true};
}

CutRule pad_cut(int64_t min_length, int64_t max_length) {
  const auto length = [=](int64_t, int64_t, int64_t remaining) {
    return remaining >= max_length ? max_length : std::max(min_length, ceil_power(remaining));
  };
  return {length, max_length, false};
}

CutRule pack_cut(int64_t max_length) {
  return {[=](int64_t, int64_t, int64_t) { return max_length; }, max_length, true};
}

PieceRows::PieceRows(const TokenShard& shard, const DocumentList& documents, const CutRule& cut,
                     const Poll& poll)
    : shard_(shard), unit_(cut.unit) {
  if (shard.num_documents() > kMax32) {
    throw Error(ErrorKind::kData, str("the corpus has ", shard.num_documents(),
                                      " documents; lmtrain takes up to ", kMax32, " in one"));
  }
  for (auto& [length, cuttings] : cut_documents(documents, cut, poll)) {
    const auto num_pieces = static_cast<int64_t>(cuttings.whole.size() + cuttings.partial.size());
    const int64_t targets = cuttings.targets;
    rows_.push_back(arrange(std::move(cuttings), length));
    lengths_.push_back({length, rows_.back().num_rows(), num_pieces, targets});
  }
}

std::map<int64_t, PieceRows::Cuttings> PieceRows::cut_documents(const DocumentList& documents,
                                                                const CutRule& cut,
                                                                const Poll& poll) const {
  std::map<int64_t, Cuttings> by_length;
  documents.for_each([&](int64_t document) {
    poll_at(static_cast<size_t>(document), poll);
    const int64_t num_targets = shard_.document_size(document) - 1;
    if (num_targets / unit_ > kMax32) {
      throw Error(ErrorKind::kData, str("document ", document, " has ", num_targets + 1,
                                        " tokens; cut the text into smaller documents"));
    }
    for (int64_t offset = 0; offset < num_targets;) {
      const int64_t length = cut.length(document, offset, num_targets - offset);
      const int64_t taken = std::min(length, num_targets - offset);
      const Piece piece{static_cast<uint32_t>(document), static_cast<uint32_t>(offset / unit_)};
      Cuttings& cuttings = by_length[length];
      if (taken < length && cut.shares) {
        cuttings.partial.push_back(piece);
        cuttings.partial_sizes.push_back(static_cast<uint32_t>(taken));
      } else {
        cuttings.whole.push_back(piece);
      }
      cuttings.targets += taken;
      offset += taken;
    }
  });
  return by_length;
}

PieceRows::RowSet PieceRows::arrange(Cuttings cuttings, int64_t length) {
  RowSet rows;
  rows.whole = std::move(cuttings.whole);
  rows.whole.shrink_to_fit();
  if (cuttings.partial.empty()) return rows;

  const Packing packing = pack_best_fit(cuttings.partial_sizes, static_cast<uint32_t>(length));
  rows.shared_begin.assign(size_t{packing.num_bins} + 1, 0);
  for (const uint32_t bin : packing.bins) ++rows.shared_begin[bin + 1];
  std::partial_sum(rows.shared_begin.begin(), rows.shared_begin.end(), rows.shared_begin.begin());
  rows.shared.resize(cuttings.partial.size());
  std::vector<uint32_t> next = rows.shared_begin;
  for (size_t i = 0; i < packing.bins.size(); ++i) {
    rows.shared[next[packing.bins[i]]++] = cuttings.partial[i];
  }

  rows.is_shared = RankBitVector(rows.num_rows());
  for (int64_t i = 0; i < packing.num_bins; ++i) {
    const Piece first = rows.shared[rows.shared_begin[static_cast<size_t>(i)]];
    const auto after = std::lower_bound(rows.whole.begin(), rows.whole.end(), first);
    rows.is_shared.insert(i + (after - rows.whole.begin()));
  }
  rows.is_shared.rank();
  return rows;
}

int64_t PieceRows::RowSet::num_rows() const {
  const size_t num_shared = shared_begin.empty() ? 0 : shared_begin.size() - 1;
  return static_cast<int64_t>(whole.size() + num_shared);
}

std::span<const PieceRows::Piece> PieceRows::RowSet::pieces_of(int64_t row) const {
  if (shared_begin.empty()) return std::span(whole).subspan(static_cast<size_t>(row), 1);
  const int64_t shared_before = is_shared.count_below(row);
  if (!is_shared.contains(row)) {
    return std::span(whole).subspan(static_cast<size_t>(row - shared_before), 1);
  }
  const auto i = static_cast<size_t>(shared_before);
  return std::span(shared).subspan(shared_begin[i], shared_begin[i + 1] - shared_begin[i]);
}

template <class Visit>
int64_t PieceRows::for_each_piece(size_t index, int64_t row, const Visit& visit) const {
  const int64_t length = lengths_[index].length;
  int64_t position = 0;
  for (const Piece piece : rows_[index].pieces_of(row)) {
    const int64_t begin = shard_.document_begin(piece.document) + piece.block * unit_;
    const int64_t remaining = shard_.document_end(piece.document) - 1 - begin;
    const int64_t size = std::min(length - position, remaining);
    if (size <= 0) shard_.fail_request(str("no targets of document ", piece.document));
    visit(piece.document, begin, position, size);
    position += size;
  }
  return position;
}

int64_t PieceRows::fill(size_t index, int64_t row, std::span<int32_t> inputs,
                        std::span<int32_t> targets, std::vector<RowPart>& parts) const {
  return for_each_piece(
      index, row, [&](uint32_t document, int64_t begin, int64_t position, int64_t size) {
        const auto at = static_cast<size_t>(position);
        shard_.read_tokens(begin, inputs.subspan(at, static_cast<size_t>(size)));
        shard_.read_tokens(begin + 1, targets.subspan(at, static_cast<size_t>(size)));
        parts.push_back({position, document});
      });
}

int64_t PieceRows::lay_out(size_t index, int64_t row, std::vector<RowPart>& parts) const {
  return for_each_piece(
      index, row, [&](uint32_t document, int64_t /*begin*/, int64_t position, int64_t /*size*/) {
        parts.push_back({position, document});
      });
}

}  // namespace lmtrain
