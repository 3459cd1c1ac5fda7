// The endless stream of the rows of one length. With one source it is that source's rows, epoch
// after epoch, each in an order of its own. A mixture interleaves such streams by weight:
//
//   until the end of its m-th epoch, round(m·weight·rows) rows of each source have come; inside an
//   epoch every block of about 1024 rows holds each source in proportion, in shuffled order
//
// so a source of weight 2 comes twice an epoch, and every share is exact over the long run. Row j
// is found in O(sources·log sources); a Reader remembers the block it is in. Immutable.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "batching/shuffle_key.h"

namespace lmtrain {

class RowStream {
 public:
  struct Group {
    int64_t rows = 0;  // of one pass over the source
    double weight = 1;
  };
  struct SourceRow {
    size_t source = 0;
    int64_t row = 0;  // of that source
  };

  // At least one of `sources` has rows. `length` takes part in the keys.
  RowStream(std::vector<Group> sources, int64_t length, const ShuffleKey& key);

  class Reader;

  // How many rows `epochs` of the mixture are (without end: at least 2^52).
  int64_t rows_of_epochs(double epochs) const;
  // Rows of a source among the first j; inside a block, what is expected.
  double drawn(int64_t j, size_t source) const;

 private:
  // Rows [begin, end) of the stream; of each source, those from `first` on, `count` of them.
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

// Rows one after another; each is what it would be by itself. For one thread.
class RowStream::Reader {
 public:
  explicit Reader(const RowStream& stream) : stream_(stream) {}
  // The j-th row, j >= 0.
  SourceRow at(int64_t j);

 private:
  const RowStream& stream_;
  Block block_{};
};

}  // namespace lmtrain
