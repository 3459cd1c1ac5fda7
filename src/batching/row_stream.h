// A RowStream is the endless stream of the rows of one length. With one source it is that source's
// rows, epoch after epoch, each in an order of its own. A mixture interleaves such streams by
// weight:
//
//   until the end of its m-th epoch, round(m·weight·rows) rows of each source have come; inside an
//   epoch every block of about 1024 rows holds each source in proportion, in shuffled order
//
// So a source of weight 2 comes twice in an epoch, and over many epochs every share is exact. Row j
// is found in O(sources·log sources); a Reader remembers the block it is in. Without shuffling a
// block has one row or a few, so that the sources take turns.
//
// In this header a source is a whole group of entries of data.train, which have one weight and are
// batched together (source_groups.h). Its number is the number of the group.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/hash.h"
#include "base/random.h"

namespace lmtrain {

// A ShuffleKey gives the keys by which the order of data is shuffled: random bits that depend on
// the fingerprint, data.seed and the use, or nothing when data.shuffle is false.
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

  // Returns the ShuffleKey of one of several groups of sources. For group 0 it returns this one.
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

  // Returns how many rows `epochs` of the mixture have, at most 2^52 for each source.
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

// A Reader finds rows; it is fast when they are asked for one after another. One thread may use it.
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
