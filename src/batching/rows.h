// The rows of one epoch of a set of documents, before anything is shuffled: what each way of
// batching makes of them. A row is `length` positions with an input and a target each. Rows of one
// length are numbered from 0 in the order of documents. Immutable after construction, so safe to
// use from any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace lmtrain {

struct RowLength {
  int64_t length = 0;
  int64_t rows = 0;     // an epoch
  int64_t pieces = 0;   // parts of documents in those rows
  int64_t targets = 0;  // of those rows, without padding
};

// Where a part of a document begins in a row.
struct RowPart {
  int64_t position = 0;
  int64_t document = 0;
};

class Rows {
 public:
  Rows() = default;
  Rows(const Rows&) = delete;
  Rows& operator=(const Rows&) = delete;
  virtual ~Rows() = default;

  // Ascending, only those that occur.
  const std::vector<RowLength>& lengths() const { return lengths_; }
  // Writes a row of lengths()[index] into spans of that length, which hold padding (0 and
  // kNoTarget) beforehand, and what it is made of to the end of `parts`, the first at position 0.
  // Gives the number of targets.
  virtual int64_t fill(size_t index, int64_t row, std::span<int32_t> inputs,
                       std::span<int32_t> targets, std::vector<RowPart>& parts) const = 0;
  // The same without a text: appends what the row is made of and gives the number of targets,
  // reading no token.
  virtual int64_t lay_out(size_t index, int64_t row, std::vector<RowPart>& parts) const = 0;
  // Whether attention stays inside each part.
  virtual bool parts_are_apart() const = 0;

 protected:
  std::vector<RowLength> lengths_;
};

}  // namespace lmtrain
