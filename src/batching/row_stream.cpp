// From a position in the stream to a row of a source, see row_stream.h.

#include "batching/row_stream.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "base/random.h"

namespace lmtrain {
namespace {

constexpr int64_t kBlockRows = 1024;

// floor(count · part / whole).
int64_t whole_share(int64_t count, int64_t part, int64_t whole) {
  return static_cast<int64_t>(static_cast<__int128>(count) * part / whole);
}

// The last n in [low, high] for which `start(n) <= j`; it holds for low. start never falls.
template <class Start>
int64_t last_not_after(int64_t j, int64_t low, int64_t high, const Start& start) {
  while (low < high) {
    const int64_t middle = low + (high - low + 1) / 2;
    if (start(middle) <= j) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  return low;
}

int64_t permuted(std::optional<uint64_t> key, int64_t size, int64_t index) {
  if (!key) return index;
  const Permutation permutation(static_cast<uint64_t>(size), *key);
  return static_cast<int64_t>(permutation(static_cast<uint64_t>(index)));
}

}  // namespace

RowStream::RowStream(std::vector<Group> sources, int64_t length, const ShuffleKey& key)
    : sources_(std::move(sources)), length_(length), key_(key) {
  for (const Group& source : sources_) {
    rows_per_epoch_ += source.weight * static_cast<double>(source.rows);
  }
}

int64_t RowStream::rows_until(double epoch, size_t source) const {
  const double rows =
      std::round(epoch * (sources_[source].weight * static_cast<double>(sources_[source].rows)));
  return static_cast<int64_t>(std::min(rows, 0x1p52));
}

int64_t RowStream::rows_of_epochs(double epochs) const {
  int64_t rows = 0;
  for (size_t source = 0; source < sources_.size(); ++source) rows += rows_until(epochs, source);
  return rows;
}

RowStream::Block RowStream::block_of(int64_t j) const {
  const auto num_sources = static_cast<double>(sources_.size());
  // Rounding moves the beginning of an epoch by at most half a row a source.
  const auto epoch_near = [&](double row) {
    return static_cast<int64_t>(std::max(0.0, std::floor(row / rows_per_epoch_)));
  };
  const auto row = static_cast<double>(j);
  const int64_t epoch =
      last_not_after(j, epoch_near(row - num_sources), epoch_near(row + num_sources) + 1,
                     [&](int64_t m) { return rows_of_epochs(static_cast<double>(m)); });

  Block block{epoch, 0, 0, 0, {}};
  const int64_t epoch_begin = rows_of_epochs(static_cast<double>(epoch));
  const int64_t size = rows_of_epochs(static_cast<double>(epoch + 1)) - epoch_begin;
  for (size_t source = 0; source < sources_.size(); ++source) {
    const int64_t first = rows_until(static_cast<double>(epoch), source);
    const int64_t end = rows_until(static_cast<double>(epoch + 1), source);
    block.parts.push_back({first, end - first});
  }
  // Without shuffling sources take turns as evenly as possible: blocks of one row or a few.
  const int64_t num_blocks = key_.shuffles() ? std::max<int64_t>(1, size / kBlockRows) : size;
  const auto block_begin = [&](int64_t number) {
    int64_t rows = 0;
    for (const Block::Part& part : block.parts) rows += whole_share(part.count, number, num_blocks);
    return rows;
  };
  const int64_t near = whole_share(j - epoch_begin, num_blocks, size);
  const int64_t slack =
      whole_share(static_cast<int64_t>(sources_.size()) + 1, num_blocks, size) + 1;
  block.number =
      last_not_after(j - epoch_begin, near, std::min(near + slack, num_blocks - 1), block_begin);
  block.begin = epoch_begin + block_begin(block.number);
  block.end = epoch_begin + block_begin(block.number + 1);
  for (Block::Part& part : block.parts) {
    const int64_t before = whole_share(part.count, block.number, num_blocks);
    part = {part.first + before, whole_share(part.count, block.number + 1, num_blocks) - before};
  }
  return block;
}

int64_t RowStream::row_of(size_t source, int64_t ordinal) const {
  const int64_t rows = sources_[source].rows;
  const auto key = key_.of_group(source)(RandomStream::kOrder, length_, ordinal / rows);
  return permuted(key, rows, ordinal % rows);
}

RowStream::SourceRow RowStream::Reader::at(int64_t j) {
  if (stream_.sources_.size() == 1) return {0, stream_.row_of(0, j)};
  if (j < block_.begin || j >= block_.end) block_ = stream_.block_of(j);
  const auto number = static_cast<int64_t>(
      hash_combine(static_cast<uint64_t>(block_.epoch), static_cast<uint64_t>(block_.number)));
  const auto key = stream_.key_(RandomStream::kMixture, stream_.length_, number);
  int64_t index = permuted(key, block_.end - block_.begin, j - block_.begin);
  size_t source = 0;
  for (; index >= block_.parts[source].count; ++source) index -= block_.parts[source].count;
  return {source, stream_.row_of(source, block_.parts[source].first + index)};
}

double RowStream::drawn(int64_t j, size_t source) const {
  if (sources_.size() == 1) return static_cast<double>(j);
  const Block block = block_of(j);
  const double passed =
      static_cast<double>(j - block.begin) / static_cast<double>(block.end - block.begin);
  const Block::Part& part = block.parts[source];
  return static_cast<double>(part.first) + passed * static_cast<double>(part.count);
}

}  // namespace lmtrain
