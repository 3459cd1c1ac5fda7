// The ways of batching: `bucket`, `pad` and `pack` lay sequences in rows (SequenceRows), and
// `concat` cuts one stream of all documents (ConcatRows). A sequence is the part of one document in
// one row.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "base/random.h"
#include "base/stop.h"
#include "batching/source_groups.h"
#include "formats/token_shard.h"

namespace lmtrain {

// The rows of one length.
struct RowLength {
  int64_t length = 0;
  int64_t rows = 0;       // rows in an epoch
  int64_t sequences = 0;  // sequences in those rows
  int64_t targets = 0;    // targets in those rows, without padding
};

// A sequence of a row.
struct RowSequence {
  int64_t position = 0;  // in the row, where it begins
  int64_t document = 0;  // its index in the shard
};

// Each way of batching makes Rows of a set of documents: the rows of one epoch, before they are
// shuffled. A row is `length` positions with an input and a target each. Rows of one length are
// numbered from 0 in the order of documents. Rows never change, so threads may share them.
class Rows {
 public:
  Rows() = default;
  Rows(const Rows&) = delete;
  Rows& operator=(const Rows&) = delete;
  virtual ~Rows() = default;

  // Returns the lengths that occur, ascending.
  const std::vector<RowLength>& lengths() const { return lengths_; }
  // Writes a row of lengths()[index] into spans of that length, which must hold padding (0 and
  // kNoTarget) beforehand. Appends the sequences of the row to `sequences`, the first at position
  // 0. Returns the number of targets. Throws the errors of TokenShard::read_tokens.
  virtual int64_t fill(size_t index, int64_t row, std::span<int32_t> inputs,
                       std::span<int32_t> targets, std::vector<RowSequence>& sequences) const = 0;
  // Appends the sequences and returns the number of targets, as fill() does, without reading
  // tokens.
  virtual int64_t lay_out(size_t index, int64_t row, std::vector<RowSequence>& sequences) const = 0;
  // Returns whether attention stays inside each sequence.
  virtual bool sequences_are_apart() const = 0;

 protected:
  std::vector<RowLength> lengths_;
};

// A RankBitVector is a set of numbers below a bound. It answers in constant time how many of its
// numbers are smaller than a given one, and takes 16 bytes for each 64 numbers below the bound.
class RankBitVector {
 public:
  RankBitVector() = default;
  explicit RankBitVector(int64_t bound) : words_(static_cast<size_t>(bound) / 64 + 1) {}

  // Numbers must be in [0, bound). Call rank() once, after the last insert() and before
  // count_below().
  void insert(int64_t number) { word(number).bits |= bit(number); }
  void rank() {
    int64_t before = 0;
    for (Word& word : words_) {
      word.before = before;
      before += std::popcount(word.bits);
    }
  }

  bool contains(int64_t number) const { return (word(number).bits & bit(number)) != 0; }
  int64_t count_below(int64_t number) const {
    return word(number).before + std::popcount(word(number).bits & (bit(number) - 1));
  }

 private:
  struct Word {
    uint64_t bits = 0;
    int64_t before = 0;  // in the words before this one
  };

  static uint64_t bit(int64_t number) { return uint64_t{1} << (number % 64); }
  Word& word(int64_t number) { return words_[static_cast<size_t>(number) / 64]; }
  const Word& word(int64_t number) const { return words_[static_cast<size_t>(number) / 64]; }

  std::vector<Word> words_;
};

// Best-fit-decreasing packing: from the largest item to the smallest, each goes into the fullest
// bin that has room for it, or into a new bin. The number of bins is never more than 11/9 of the
// least possible number plus 1 (Johnson 1973; for documents in rows: Ding et al., "Fewer
// Truncations Improve Language Modeling", arXiv 2404.10830).
//
// The time is of order n + bins·log(capacity), since items of one size are handled together.
struct Packing {
  std::vector<uint32_t> bins;  // the bin of each item; bins are numbered as items first use them
  uint32_t num_bins = 0;
};

// Packs items of these sizes, each from 1 to `capacity`, into bins of `capacity`. There must be
// fewer than 2^32 items.
Packing pack_best_fit(std::span<const uint32_t> sizes, uint32_t capacity);

// A CutRule says how documents are cut into sequences.
struct CutRule {
  // Returns the length of the row for the sequence that begins at `offset` of a document, where the
  // document has `remaining` targets left.
  std::function<int64_t(int64_t document, int64_t offset, int64_t remaining)> length;
  int64_t unit;  // divides every offset
  bool shares;   // whether sequences shorter than their row share rows
};

// The lengths of bucket_cut() and pad_cut() are powers of two from min_length to max_length, which
// must be powers of two themselves.
//
//   bucket_cut  cuts max_length targets while the document has enough; if `balanced`, draws shorter
//               lengths too, with the key `fingerprint`
//   pad_cut     cuts every max_length targets
//   pack_cut    likewise; all rows have max_length, any number above 0
CutRule bucket_cut(uint64_t fingerprint, int64_t min_length, int64_t max_length, bool balanced);
CutRule pad_cut(int64_t min_length, int64_t max_length);
CutRule pack_cut(int64_t max_length);

// The rows of `bucket`, `pad` and `pack`. Attention stays inside a sequence.
//
// A sequence is (document, offset): inputs tokens[offset ..] and targets tokens[offset+1 ..] of the
// document, until the row is full or the document ends. Every offset is a multiple of the cut's
// unit, so a sequence is stored in 8 bytes. A sequence that fills its row is alone in it. Shorter
// sequences share rows (`bucket`, `pack`), or each has a padded row (`pad`).
class SequenceRows : public Rows {
 public:
  // The shard must outlive the rows. Throws what `poll` throws. Throws Error(kData) for a shard of
  // more than 2^32 - 1 documents, and for a document of more than 2^32 - 1 units.
  SequenceRows(const TokenShard& shard, const DocumentList& documents, const CutRule& cut,
               const Poll& poll = throw_if_stopped);
  int64_t fill(size_t index, int64_t row, std::span<int32_t> inputs, std::span<int32_t> targets,
               std::vector<RowSequence>& sequences) const override;
  int64_t lay_out(size_t index, int64_t row, std::vector<RowSequence>& sequences) const override;
  bool sequences_are_apart() const override { return true; }

 private:
  struct Sequence {
    uint32_t document;
    uint32_t block;  // offset / unit

    bool operator<(const Sequence& other) const {
      return document != other.document ? document < other.document : block < other.block;
    }
  };
  // A RowSet holds the rows of one length. Rows of one sequence and rows of several sequences are
  // numbered together, in the order of their first sequences.
  struct RowSet {
    std::vector<Sequence> whole;
    std::vector<Sequence> shared;  // row after row
    std::vector<uint32_t>
        shared_begin;         // by shared row, and the end of the last row; empty: no row is shared
    RankBitVector is_shared;  // by row

    int64_t num_rows() const;
    std::span<const Sequence> sequences_of(int64_t row) const;
  };
  // The sequences that cutting gives rows of one length.
  struct Cuttings {
    std::vector<Sequence> whole;
    std::vector<Sequence> partial;
    std::vector<uint32_t> partial_sizes;
    int64_t targets = 0;
  };

  std::map<int64_t, Cuttings> cut_documents(const DocumentList& documents, const CutRule& cut,
                                            const Poll& poll) const;
  static RowSet arrange(Cuttings cuttings, int64_t length);
  // Calls visit(document, begin, position, size) for each sequence of a row of lengths()[index]:
  // tokens of the shard from `begin` on, and the positions in the row. Returns the number of
  // targets.
  template <class Visit>
  int64_t for_each_sequence(size_t index, int64_t row, const Visit& visit) const;

  const TokenShard& shard_;
  int64_t unit_;
  std::vector<RowSet> rows_;  // beside lengths()
};

// With `concat` the documents are joined to one stream of tokens, which is cut into rows every
// max_length targets; consecutive rows share one token. The first token of a document is masked as
// a target, so that a document trains the same targets as in every other way of batching. Documents
// without a target (fewer than 2 tokens) are left out. It takes 8 bytes for each document.
class ConcatRows : public Rows {
 public:
  // With a `key` the documents are joined in the order of a keyed permutation, else in the order of
  // the shard. The shard must outlive the rows. Throws what `poll` throws.
  ConcatRows(const TokenShard& shard, DocumentList documents, int64_t max_length,
             std::optional<uint64_t> key, const Poll& poll = throw_if_stopped);
  int64_t fill(size_t index, int64_t row, std::span<int32_t> inputs, std::span<int32_t> targets,
               std::vector<RowSequence>& sequences) const override;
  int64_t lay_out(size_t index, int64_t row, std::vector<RowSequence>& sequences) const override;
  bool sequences_are_apart() const override { return false; }

 private:
  int64_t document_at(size_t index) const;
  // Calls visit(document, shift, input, input_end, target_end) for each document of a row. The last
  // three are positions in the stream: its inputs are there in [input, input_end), its targets in
  // [input + 1, target_end). The token at position p is at p + shift of the shard. Returns the
  // number of targets.
  template <class Visit>
  int64_t for_each_document(int64_t row, const Visit& visit) const;

  const TokenShard& shard_;
  DocumentList documents_;
  std::optional<Permutation> order_;
  std::vector<int64_t> ends_;  // the end of each document in the stream, in the order of joining
};

}  // namespace lmtrain
