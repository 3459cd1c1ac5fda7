// A Batch is what one optimizer step is computed from: rows x length positions, each with an input
// and a target id.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "config/config.h"

namespace lmtrain {

// A position with this target is not trained on: padding, or a document's boundary in `concat`.
inline constexpr int32_t kNoTarget = -100;

// A RowRange holds the rows [first, end) of a batch.
struct RowRange {
  int64_t first = 0, end = 0;
};

// Returns the rows of part number `part`, 0 <= part < parts. Parts are contiguous, and their sizes
// differ by at most one row. If n divides `parts`, each of n shares is a run of whole parts.
constexpr RowRange rows_of_part(int64_t rows, int64_t part, int64_t parts) {
  return {rows * part / parts, rows * (part + 1) / parts};
}

// A BatchShare says which rows of every batch are wanted: the part of process `rank` of `count`, by
// rows_of_part().
struct BatchShare {
  int64_t rank = 0, count = 1;
};

struct Batch {
  int64_t index = 0;  // position in the order of data
  int64_t rows = 0;   // rows of this share; inputs, targets and segments hold only these
  int64_t length = 0;
  std::vector<int32_t> inputs;   // [rows x length]; padding holds id 0
  std::vector<int32_t> targets;  // [rows x length]; kNoTarget where nothing is trained
  // The documents of all rows of the whole batch, by position. A document occurs once for each of
  // its sequences.
  std::vector<int64_t> documents;  // indices in the shard
  // Segments begin at these flattened positions (row * length + position), ascending; the first
  // position of every row is among them. Attention and position ids stay inside a segment. Empty:
  // every row is one segment.
  std::vector<int32_t> segments;
  // The whole batch has num_targets and batch_rows; the share begins at its row first_row.
  int64_t num_targets = 0;
  int64_t batch_rows = 0;
  int64_t first_row = 0;
};

// The rows that were lowered after memory ran out. A micro-batch is the rows that go through the
// model at once. The limits are part of the training state.
struct MicroBatchLimits {
  int64_t micro_tokens = 0;         // batch.micro_tokens when rows were lowered
  std::map<int64_t, int64_t> rows;  // lowered rows by length; other lengths are absent
  bool operator==(const MicroBatchLimits&) const = default;
};

// Tells how the rows of a length were reduced, for the log.
struct MicroBatchReduction {
  int64_t length = 0;
  int64_t rows_before = 0, rows = 0;
  std::string reason;
};
// Returns the rows of a micro-batch of this length, at least 1. If `fit` has this length, its rows
// are returned. Otherwise they are the lower of batch.micro_tokens and batch.tokens, divided by the
// length. `config` is resolved. fit.micro_tokens is not read.
inline int64_t micro_rows(const Config& config, const MicroBatchLimits& fit, int64_t length) {
  const auto lowered = fit.rows.find(length);
  if (lowered != fit.rows.end()) return lowered->second;
  return std::max<int64_t>(1, std::min(*config.batch.micro_tokens, config.batch.tokens) / length);
}

}  // namespace lmtrain
