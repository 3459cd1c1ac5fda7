// Rows that hold a piece of one document: `bucket` and `pad`.
//
// A piece is (document, offset): inputs tokens[offset ..] and targets tokens[offset+1 ..] of the
// document, as many as the row holds or the document has left. Every offset is a multiple of
// min_length, which packs a piece in 8 bytes.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "batching/rows.h"
#include "formats/token_shard.h"

namespace lmtrain {

// The length of the row for the next piece of a document: `remaining` targets from `offset` on.
using CutRule = std::function<int64_t(int64_t document, int64_t offset, int64_t remaining)>;

// Lengths are powers of two from min_length to max_length. `fingerprint` keys the random lengths of
// the balanced cut.
CutRule bucket_cut(uint64_t fingerprint, int64_t min_length, int64_t max_length, bool balanced);
CutRule pad_cut(int64_t min_length, int64_t max_length);

class PieceRows : public Rows {
 public:
  // The shard must outlive the rows.
  PieceRows(const TokenShard& shard, int64_t min_length, const CutRule& cut);
  RowContent fill(size_t index, int64_t row, std::span<int32_t> inputs,
                  std::span<int32_t> targets) const override;

 private:
  struct Piece {
    uint32_t document;
    uint32_t block;  // offset / min_length
  };

  const TokenShard& shard_;
  int64_t min_length_;
  std::vector<std::vector<Piece>> pieces_;  // beside lengths()
};

}  // namespace lmtrain
