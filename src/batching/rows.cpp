// Cutting documents, see rows.h; docs/batching.md states the rules.

#include "batching/rows.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <map>
#include <numeric>
#include <utility>

#include "base/error.h"
#include "base/hash.h"
#include "base/random.h"
#include "base/text.h"

namespace lmtrain {

// Items by size, bins by the room left in them, see rows.h.

namespace {

// Items of equal size are [begins[size], begins[size + 1]) of `items`.
struct BySize {
  std::vector<uint32_t> begins;
  std::vector<uint32_t> items;
};

BySize sort_by_size(std::span<const uint32_t> sizes) {
  const uint32_t largest = sizes.empty() ? 0 : *std::max_element(sizes.begin(), sizes.end());
  BySize sorted{std::vector<uint32_t>(size_t{largest} + 2, 0), std::vector<uint32_t>(sizes.size())};
  for (const uint32_t size : sizes) ++sorted.begins[size + 1];
  for (size_t i = 1; i < sorted.begins.size(); ++i) sorted.begins[i] += sorted.begins[i - 1];
  std::vector<uint32_t> next = sorted.begins;
  for (size_t item = 0; item < sizes.size(); ++item) {
    sorted.items[next[sizes[item]]++] = static_cast<uint32_t>(item);
  }
  return sorted;
}

void number_by_first_item(Packing& packing) {
  constexpr uint32_t kNone = std::numeric_limits<uint32_t>::max();
  std::vector<uint32_t> number(packing.num_bins, kNone);
  uint32_t next = 0;
  for (uint32_t& bin : packing.bins) {
    if (number[bin] == kNone) number[bin] = next++;
    bin = number[bin];
  }
}

}  // namespace

Packing pack_best_fit(std::span<const uint32_t> sizes, uint32_t capacity) {
  const BySize sorted = sort_by_size(sizes);
  Packing packing{std::vector<uint32_t>(sizes.size()), 0};
  std::map<uint32_t, std::vector<uint32_t>> open;  // bins by the room left, above 0
  for (auto size = static_cast<uint32_t>(sorted.begins.size() - 2); size > 0; --size) {
    for (uint32_t i = sorted.begins[size]; i < sorted.begins[size + 1];) {
      const auto fitting = open.lower_bound(size);
      uint32_t room = capacity;
      uint32_t bin = packing.num_bins;
      if (fitting == open.end()) {
        ++packing.num_bins;
      } else {
        room = fitting->first;
        bin = fitting->second.back();
        fitting->second.pop_back();
        if (fitting->second.empty()) open.erase(fitting);
      }
      // The bin keeps the least room that fits this size, so it takes more of the size while it
      // can.
      for (; i < sorted.begins[size + 1] && room >= size; room -= size) {
        packing.bins[sorted.items[i++]] = bin;
      }
      if (room > 0) open[room].push_back(bin);
    }
  }
  number_by_first_item(packing);
  return packing;
}

namespace {

constexpr int64_t kMax32 = std::numeric_limits<uint32_t>::max();

uint64_t as_unsigned(int64_t value) { return static_cast<uint64_t>(value); }

int64_t floor_power(int64_t value) {
  return static_cast<int64_t>(std::bit_floor(as_unsigned(value)));
}
int64_t ceil_power(int64_t value) {
  return static_cast<int64_t>(std::bit_ceil(as_unsigned(value)));
}

// P(T) is proportional to 1/T over the n powers of two from min to max: of 2^n - 1 equal chances
// the shortest has 2^(n-1), the next 2^(n-2), ... the longest 1. In integers, so that every machine
// draws the same.
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

SequenceRows::SequenceRows(const TokenShard& shard, const DocumentList& documents,
                           const CutRule& cut, const Poll& poll)
    : shard_(shard), unit_(cut.unit) {
  if (shard.num_documents() > kMax32) {
    throw Error(ErrorKind::kData, str("the corpus has ", shard.num_documents(),
                                      " documents; lmtrain takes up to ", kMax32, " in one"));
  }
  for (auto& [length, cuttings] : cut_documents(documents, cut, poll)) {
    const auto num_sequences =
        static_cast<int64_t>(cuttings.whole.size() + cuttings.partial.size());
    const int64_t targets = cuttings.targets;
    rows_.push_back(arrange(std::move(cuttings), length));
    lengths_.push_back({length, rows_.back().num_rows(), num_sequences, targets});
  }
}

std::map<int64_t, SequenceRows::Cuttings> SequenceRows::cut_documents(const DocumentList& documents,
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
      const Sequence sequence{static_cast<uint32_t>(document),
                              static_cast<uint32_t>(offset / unit_)};
      Cuttings& cuttings = by_length[length];
      if (taken < length && cut.shares) {
        cuttings.partial.push_back(sequence);
        cuttings.partial_sizes.push_back(static_cast<uint32_t>(taken));
      } else {
        cuttings.whole.push_back(sequence);
      }
      cuttings.targets += taken;
      offset += taken;
    }
  });
  return by_length;
}

SequenceRows::RowSet SequenceRows::arrange(Cuttings cuttings, int64_t length) {
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
    const Sequence first = rows.shared[rows.shared_begin[static_cast<size_t>(i)]];
    const auto after = std::lower_bound(rows.whole.begin(), rows.whole.end(), first);
    rows.is_shared.insert(i + (after - rows.whole.begin()));
  }
  rows.is_shared.rank();
  return rows;
}

int64_t SequenceRows::RowSet::num_rows() const {
  const size_t num_shared = shared_begin.empty() ? 0 : shared_begin.size() - 1;
  return static_cast<int64_t>(whole.size() + num_shared);
}

std::span<const SequenceRows::Sequence> SequenceRows::RowSet::sequences_of(int64_t row) const {
  if (shared_begin.empty()) return std::span(whole).subspan(static_cast<size_t>(row), 1);
  const int64_t shared_before = is_shared.count_below(row);
  if (!is_shared.contains(row)) {
    return std::span(whole).subspan(static_cast<size_t>(row - shared_before), 1);
  }
  const auto i = static_cast<size_t>(shared_before);
  return std::span(shared).subspan(shared_begin[i], shared_begin[i + 1] - shared_begin[i]);
}

template <class Visit>
int64_t SequenceRows::for_each_sequence(size_t index, int64_t row, const Visit& visit) const {
  const int64_t length = lengths_[index].length;
  int64_t position = 0;
  for (const Sequence sequence : rows_[index].sequences_of(row)) {
    const int64_t begin = shard_.document_begin(sequence.document) + sequence.block * unit_;
    const int64_t remaining = shard_.document_end(sequence.document) - 1 - begin;
    const int64_t size = std::min(length - position, remaining);
    if (size <= 0) shard_.fail_request(str("no targets of document ", sequence.document));
    visit(sequence.document, begin, position, size);
    position += size;
  }
  return position;
}

int64_t SequenceRows::fill(size_t index, int64_t row, std::span<int32_t> inputs,
                           std::span<int32_t> targets, std::vector<RowSequence>& sequences) const {
  return for_each_sequence(
      index, row, [&](uint32_t document, int64_t begin, int64_t position, int64_t size) {
        const auto at = static_cast<size_t>(position);
        shard_.read_tokens(begin, inputs.subspan(at, static_cast<size_t>(size)));
        shard_.read_tokens(begin + 1, targets.subspan(at, static_cast<size_t>(size)));
        sequences.push_back({position, document});
      });
}

int64_t SequenceRows::lay_out(size_t index, int64_t row,
                              std::vector<RowSequence>& sequences) const {
  return for_each_sequence(
      index, row, [&](uint32_t document, int64_t /*begin*/, int64_t position, int64_t /*size*/) {
        sequences.push_back({position, document});
      });
}

// One stream of tokens in rows, see rows.h.

ConcatRows::ConcatRows(const TokenShard& shard, DocumentList documents, int64_t max_length,
                       std::optional<uint64_t> key, const Poll& poll)
    : shard_(shard), documents_(std::move(documents)) {
  const auto num_documents = static_cast<size_t>(documents_.size());
  if (key) order_.emplace(num_documents, *key);
  ends_.reserve(num_documents);
  int64_t end = 0;
  int64_t num_targets = 0;
  for (size_t index = 0; index < num_documents; ++index) {
    poll_at(index, poll);
    const int64_t size = shard.document_size(document_at(index));
    if (size >= 2) {
      end += size;
      num_targets += size - 1;
    }
    ends_.push_back(end);
  }
  if (num_targets == 0) return;
  const int64_t num_inputs = end - 1;
  int64_t num_sequences = 0;
  int64_t begin = 0;
  for (const int64_t document_end : ends_) {
    // A document that is left out has no inputs, nor has one whose only input would be the last.
    const int64_t last = std::min(document_end, num_inputs) - 1;
    if (last >= begin) num_sequences += last / max_length - begin / max_length + 1;
    begin = document_end;
  }
  lengths_.push_back(
      {max_length, (num_inputs + max_length - 1) / max_length, num_sequences, num_targets});
}

int64_t ConcatRows::document_at(size_t index) const {
  return documents_[static_cast<int64_t>(order_ ? (*order_)(index) : index)];
}

template <class Visit>
int64_t ConcatRows::for_each_document(int64_t row, const Visit& visit) const {
  // Positions count from the start of the stream; the target of the input at p is the token at p
  // + 1.
  const int64_t length = lengths_.front().length;
  const int64_t begin = row * length;
  const int64_t end = std::min(begin + length, ends_.back() - 1);
  auto index =
      static_cast<size_t>(std::upper_bound(ends_.begin(), ends_.end(), begin) - ends_.begin());
  int64_t num_targets = 0;
  for (int64_t first = index == 0 ? 0 : ends_[index - 1]; first < end; first = ends_[index++]) {
    const int64_t last = ends_[index];
    if (last == first) continue;  // a document that is left out
    const int64_t document = document_at(index);
    const int64_t input = std::max(first, begin);
    // The first token of a document is no target.
    const int64_t target_end = std::min(last, end + 1);
    visit(document, shard_.document_begin(document) - first, input, std::min(last, end),
          target_end);
    num_targets += std::max<int64_t>(0, target_end - input - 1);
  }
  return num_targets;
}

int64_t ConcatRows::fill(size_t /*index*/, int64_t row, std::span<int32_t> inputs,
                         std::span<int32_t> targets, std::vector<RowSequence>& sequences) const {
  const int64_t begin = row * static_cast<int64_t>(inputs.size());
  const auto copy = [&](int64_t from, int64_t to, int64_t shift, std::span<int32_t> out) {
    shard_.read_tokens(from + shift,
                       out.subspan(0, static_cast<size_t>(std::max<int64_t>(0, to - from))));
  };
  return for_each_document(row, [&](int64_t document, int64_t shift, int64_t input,
                                    int64_t input_end, int64_t target_end) {
    const auto at = static_cast<size_t>(input - begin);
    sequences.push_back({input - begin, document});
    copy(input, input_end, shift, inputs.subspan(at));
    copy(input + 1, target_end, shift, targets.subspan(at));
  });
}

int64_t ConcatRows::lay_out(size_t /*index*/, int64_t row,
                            std::vector<RowSequence>& sequences) const {
  const int64_t begin = row * lengths_.front().length;
  return for_each_document(row, [&](int64_t document, int64_t /*shift*/, int64_t input,
                                    int64_t /*input_end*/, int64_t /*target_end*/) {
    sequences.push_back({input - begin, document});
  });
}

}  // namespace lmtrain
