// A RowStream is the endless stream of the rows of one length. With one source it is that source's
// rows, epoch after epoch, each epoch in an order of its own. A mixture interleaves the streams of
// several sources by weight:
//
//   the first m epochs have round(m·weight·rows) rows of each source; inside an epoch every block
//   of about 1024 rows holds each source in proportion, in shuffled order
//
// So a source of weight 2 comes twice in an epoch. Row j is found in O(sources·log sources).
// Without shuffling a block has one row or a few, so that the sources take turns.
//
// Here a source is a SourceGroup (source_groups.h), entries of data.train with one weight; its
// number is the number of the group. All but a Reader is immutable, so threads may share it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/hash.h"
#include "base/random.h"

namespace lmtrain {

// A ShuffleKey gives the keys that shuffle the order of data: random bits of the fingerprint,
// data.seed and the use of the key, or nothing if data.shuffle is false.
class ShuffleKey {
 public:
  ShuffleKey(const std::string& fingerprint, int64_t data_seed, bool shuffle)
      : base_(hash_combine(hash64(fingerprint), static_cast<uint64_t>(data_seed))),
        shuffle_(shuffle) {}

  bool shuffles() const { return shuffle_; }

  // Returns the key of one use. The numbers `a` and `b` distinguish the uses of a stream, such as
  // length and epoch.
  std::optional<uint64_t> operator()(RandomStream stream, int64_t a, int64_t b) const {
    if (!shuffle_) return std::nullopt;
    return random_bits(base_, stream,
                       hash_combine(static_cast<uint64_t>(a), static_cast<uint64_t>(b)));
  }

  // Returns the ShuffleKey of a group of sources. Group 0 has this one.
  ShuffleKey of_group(size_t group) const {
    ShuffleKey key = *this;
    if (group > 0) key.base_ = hash_combine(base_, group);
    return key;
  }

 private:
  uint64_t base_;
  bool shuffle_;
};

class RowStream {
 public:
  struct Group {
    int64_t rows = 0;  // in one pass over the source
    double weight = 1;
  };
  struct SourceRow {
    size_t source = 0;  // the number of the group
    int64_t row = 0;    // the number in that source's rows
  };

  // At least one of `sources` must have rows. `length` is used only in the keys, so that each
  // length is shuffled differently.
  RowStream(std::vector<Group> sources, int64_t length, const ShuffleKey& key);

  class Reader;

  // Returns how many rows the first `epochs` epochs have, at most 2^52 of each source.
  int64_t rows_of_epochs(double epochs) const;
  // Returns how many of the first j rows come from a source: exact at the ends of blocks, an
  // expected number inside a block.
  double drawn(int64_t j, size_t source) const;

 private:
  // A Block is rows [begin, end) of the stream: `count` rows of each source, from its row `first`
  // on.
  struct Block {
    struct Part {
      int64_t first;
      int64_t count;
    };
    int64_t epoch;
    int64_t number;  // in the epoch
    int64_t begin;
    int64_t end;
    std::vector<Part> parts;
  };

  int64_t rows_until(double epoch, size_t source) const;
  Block block_of(int64_t j) const;
  int64_t row_of(size_t source, int64_t ordinal) const;

  std::vector<Group> sources_;
  int64_t length_;
  ShuffleKey key_;
  double rows_per_epoch_ = 0;
};

// A Reader finds rows, fast if they ascend. One thread uses it; the stream must outlive it.
class RowStream::Reader {
 public:
  explicit Reader(const RowStream& stream) : stream_(stream) {}
  // Returns the j-th row, j >= 0.
  SourceRow at(int64_t j);

 private:
  const RowStream& stream_;
  Block block_{};
};

}  // namespace lmtrain
