// Each way of batching makes Rows of a set of documents: the rows of one epoch, before they are
// shuffled. A row is `length` positions with an input and a target each. Rows of one length are
// numbered from 0 in the order of documents. Nothing changes after construction, so all threads may
// use it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace lmtrain {

struct RowLength {
  int64_t length = 0;
  int64_t rows = 0;     // rows in an epoch
  int64_t pieces = 0;   // parts of documents in those rows
  int64_t targets = 0;  // targets in those rows, without padding
};

// A part of a document in a row, and the position at which it begins.
struct RowPart {
  int64_t position = 0;
  int64_t document = 0;  // its index in the shard
};

class Rows {
 public:
  Rows() = default;
  Rows(const Rows&) = delete;
  Rows& operator=(const Rows&) = delete;
  virtual ~Rows() = default;

  // Returns the lengths that occur, ascending.
  const std::vector<RowLength>& lengths() const { return lengths_; }
  // Writes a row of lengths()[index] into spans of that length, which must hold padding (0 and
  // kNoTarget) beforehand. Appends the parts that the row is made of to `parts`, the first at
  // position 0. Returns the number of targets. Throws the errors of TokenShard::read_tokens.
  virtual int64_t fill(size_t index, int64_t row, std::span<int32_t> inputs,
                       std::span<int32_t> targets, std::vector<RowPart>& parts) const = 0;
  // Does the same without reading tokens: appends the parts, and returns the number of targets.
  virtual int64_t lay_out(size_t index, int64_t row, std::vector<RowPart>& parts) const = 0;
  // Returns whether attention stays inside each part.
  virtual bool parts_are_apart() const = 0;

 protected:
  std::vector<RowLength> lengths_;
};

}  // namespace lmtrain
