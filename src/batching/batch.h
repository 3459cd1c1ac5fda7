// The batch of one optimizer step: rows x length positions, each with an input and a target id.
#pragma once

#include <cstdint>
#include <vector>

namespace lmtrain {

// The target of a position that is not trained on: padding, or a document's boundary in `concat`.
inline constexpr int32_t kNoTarget = -100;

// The rows of a batch that one of several processes computes: [first, end).
struct RowRange {
  int64_t first = 0, end = 0;
};

// Rows dealt out to `parts` in contiguous shares that differ by one row at most. Where `parts` is a
// multiple of n, the parts of a share of n are the share's own rows dealt out again.
constexpr RowRange rows_of_part(int64_t rows, int64_t part, int64_t parts) {
  return {rows * part / parts, rows * (part + 1) / parts};
}

// Which share of every batch is wanted: that of process `rank` of `count`.
struct BatchShare {
  int64_t rank = 0, count = 1;
};

struct Batch {
  int64_t index = 0;  // position in the order of data
  int64_t rows = 0;   // of this share, as are inputs, targets and segments
  int64_t length = 0;
  std::vector<int32_t> inputs;     // [rows x length]; padding holds id 0
  std::vector<int32_t> targets;    // [rows x length]; kNoTarget where nothing is trained
  std::vector<int64_t> documents;  // of every part of every row, by position; one may be in several
  // Flattened positions (row * length + position), ascending, where a piece of a document begins;
  // every row's first position is among them. Attention and positions stay inside a segment. Empty:
  // every row is one.
  std::vector<int32_t> segments;
  // The whole batch, as are documents; the share begins at first_row of it.
  int64_t num_targets = 0;
  int64_t batch_rows = 0;
  int64_t first_row = 0;
};

}  // namespace lmtrain
