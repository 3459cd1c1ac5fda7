// A BPE vocabulary made ready for encoding. Strings have become symbols, and a table gives symbol
// and rank of the join of two neighbours. Text is in sentencepiece's normal form, but spaces are
// written as spaces. A table is immutable, so threads may share it.
//
// Every join gives a piece. Suppose that no piece has the characters a and b next to each other.
// Then nothing is ever joined across a boundary between a and b, and the text may be cut there. The
// parts, encoded one by one, give the ids of the whole text. joins(a, b) is false there.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "tokenizer/bpe_merge.h"
#include "tokenizer/byte_trie.h"
#include "tokenizer/flat_map.h"
#include "tokenizer/model_proto.h"

namespace lmtrain {

// Returns why a BpeTable of this model would not give sentencepiece's ids; nothing if it would.
std::optional<std::string> why_not_exact(const SentencePieceModel& model);

class BpeTable {
 public:
  using Symbol = int32_t;  // number, from 0, of a piece or a character of a piece
  // The symbol of a character that is in no piece.
  static constexpr Symbol kUnknown = -1;

  // Requires that why_not_exact(model) and model_problem(model) find nothing.
  explicit BpeTable(const SentencePieceModel& model);

  // Returns whether a piece has `a` directly before `b`.
  bool joins(char32_t a, char32_t b) const {
    if (a < 128 && b < 128) return (ascii_joins_[a][b / 64] >> (b % 64) & 1U) != 0;
    return joins_.find(uint64_t{a} << 32 | b) != FlatMap::kNone;
  }

  // Returns the symbol of a character, or kUnknown.
  Symbol character(char32_t code_point) const {
    if (code_point < 128) return ascii_[code_point];
    const uint64_t found = characters_.find(code_point);
    return found == FlatMap::kNone ? kUnknown : static_cast<Symbol>(found);
  }

  // Looks for a user-defined symbol at the beginning of `text`. Such symbols are taken out of the
  // text before anything is joined. Stores the longest one in `symbol` and returns its size in
  // bytes. Without one it returns 0 and does not set `symbol`.
  size_t user_defined(std::string_view text, Symbol& symbol) const {
    return user_defined_.longest(text, &symbol);
  }

  // Returns the join of two neighbours. If they cannot be joined, its rank is BpeJoin::kNone.
  BpeJoin join(Symbol left, Symbol right) const {
    if (left < 0 || right < 0) return {};
    const uint64_t found =
        pairs_.find(uint64_t{static_cast<uint32_t>(left)} << 32 | static_cast<uint32_t>(right));
    if (found == FlatMap::kNone) return {};
    return {static_cast<uint32_t>(found >> 32), static_cast<Symbol>(found & UINT32_MAX)};
  }

  // Returns the id of the piece with the text of `symbol`, not kUnknown; -1 if there is none.
  int32_t id(Symbol symbol) const { return ids_[static_cast<size_t>(symbol)]; }
  int32_t unk_id() const { return unk_id_; }
  // If true, a character without a piece becomes one byte piece for each byte; if false, <unk>.
  // byte_id() requires has_bytes().
  bool has_bytes() const { return has_bytes_; }
  int32_t byte_id(unsigned char byte) const { return byte_ids_[byte]; }

 private:
  Symbol symbol_of(const std::string& text);
  void add_characters(std::string_view text);
  void add_joins(std::string_view text, uint32_t rank);

  std::array<std::array<uint64_t, 2>, 128> ascii_joins_{};
  FlatMap joins_;
  std::array<Symbol, 128> ascii_{};
  FlatMap characters_;
  FlatMap pairs_;  // two symbols -> rank, symbol
  std::unordered_map<std::string, Symbol> symbols_;
  std::vector<int32_t> ids_;  // by symbol
  ByteTrie user_defined_ = ByteTrie({});
  int32_t unk_id_ = 0;
  bool has_bytes_ = false;
  std::array<int32_t, 256> byte_ids_{};
};

}  // namespace lmtrain
