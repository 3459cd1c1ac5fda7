// With `bucket`, `pad` and `pack` rows hold pieces of documents, and attention stays inside a
// piece.
//
// A piece is (document, offset): inputs tokens[offset ..] and targets tokens[offset+1 ..] of the
// document, until the row is full or the document ends. Every offset is a multiple of the cut's
// unit, so a piece is stored in 8 bytes. A piece that fills its row is alone in it. Shorter pieces
// share rows (`bucket`, `pack`), or each has a padded row (`pad`).
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <vector>

#include "base/stop.h"
#include "batching/document_list.h"
#include "batching/rank_bit_vector.h"
#include "batching/rows.h"
#include "formats/token_shard.h"

namespace lmtrain {

// The rule by which documents are cut into pieces.
struct CutRule {
  // Returns the length of the row for the next piece of a document, which has `remaining` targets
  // from `offset` on.
  std::function<int64_t(int64_t document, int64_t offset, int64_t remaining)> length;
  int64_t unit;  // divides every offset
  bool shares;   // whether pieces that do not fill a row share rows
};

// The lengths of bucket and pad are powers of two from min_length to max_length, which must be
// powers of two. `fingerprint` is the key of the random lengths of the balanced cut. pad and pack
// cut a document every max_length targets; pack's rows have max_length, which may be any above 0.
CutRule bucket_cut(uint64_t fingerprint, int64_t min_length, int64_t max_length, bool balanced);
CutRule pad_cut(int64_t min_length, int64_t max_length);
CutRule pack_cut(int64_t max_length);

class PieceRows : public Rows {
 public:
  // The shard must outlive the rows. Throws Error(kData) for a shard of more than 2^32 - 1
  // documents, for a document of more than 2^32 - 1 units, and what `poll` throws.
  PieceRows(const TokenShard& shard, const DocumentList& documents, const CutRule& cut,
            const Poll& poll = throw_if_stopped);
  int64_t fill(size_t index, int64_t row, std::span<int32_t> inputs, std::span<int32_t> targets,
               std::vector<RowPart>& parts) const override;
  int64_t lay_out(size_t index, int64_t row, std::vector<RowPart>& parts) const override;
  bool parts_are_apart() const override { return true; }

 private:
  struct Piece {
    uint32_t document;
    uint32_t block;  // offset / unit

    bool operator<(const Piece& other) const {
      return document != other.document ? document < other.document : block < other.block;
    }
  };
  // A RowSet holds the rows of one length. Rows of one piece and rows of several pieces are
  // numbered together, in the order of their first pieces.
  struct RowSet {
    std::vector<Piece> whole;
    std::vector<Piece> shared;  // row after row
    std::vector<uint32_t>
        shared_begin;         // by shared row, and the end of the last row; empty: no row is shared
    RankBitVector is_shared;  // by row

    int64_t num_rows() const;
    std::span<const Piece> pieces_of(int64_t row) const;
  };
  // The pieces that cutting gives rows of one length.
  struct Cuttings {
    std::vector<Piece> whole;
    std::vector<Piece> partial;
    std::vector<uint32_t> partial_sizes;
    int64_t targets = 0;
  };

  std::map<int64_t, Cuttings> cut_documents(const DocumentList& documents, const CutRule& cut,
                                            const Poll& poll) const;
  static RowSet arrange(Cuttings cuttings, int64_t length);
  // Calls visit(document, begin, position, size) for each piece of a row of lengths()[index]:
  // tokens of the shard from `begin` on, and the positions in the row. Returns the number of
  // targets.
  template <class Visit>
  int64_t for_each_piece(size_t index, int64_t row, const Visit& visit) const;

  const TokenShard& shard_;
  int64_t unit_;
  std::vector<RowSet> rows_;  // beside lengths()
};

}  // namespace lmtrain
