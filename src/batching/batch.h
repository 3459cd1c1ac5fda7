// The batch of one optimizer step: rows x length positions, each with an input and a target id.
#pragma once

#include <cstdint>
#include <vector>

namespace lmtrain {

// The target of a position that is not trained on: padding, or a document's boundary in `concat`.
inline constexpr int32_t kNoTarget = -100;

struct Batch {
  int64_t index = 0;  // position in the order of data
  int64_t rows = 0;
  int64_t length = 0;
  std::vector<int32_t> inputs;     // [rows x length]; padding holds id 0
  std::vector<int32_t> targets;    // [rows x length]; kNoTarget where nothing is trained
  std::vector<int64_t> documents;  // of every part of every row, by position; one may be in several
  // Flattened positions (row * length + position), ascending, where a piece of a document begins;
  // every row's first position is among them. Attention and positions stay inside a segment. Empty:
  // every row is one.
  std::vector<int32_t> segments;
  int64_t num_targets = 0;
};

}  // namespace lmtrain
