// Encodes a word by byte pair encoding in time proportional to its length: it takes the longest
// token that agrees with the token before, and goes back where none does (van Antwerpen, Neubeck:
// "So many tokens, so little time", 2024). The ids are the same as BpeMerge gives.
//
// Two neighbours agree if BPE of their joined text gives these two tokens. A model must make every
// merge after the merges of its two parts. Then a word has one row of tokens in which all
// neighbours agree, and this row is its encoding. The encoder is immutable, so threads may share
// it. Each thread needs its own Scratch.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "tokenizer/byte_trie.h"
#include "tokenizer/pair_ranks.h"

namespace lmtrain {

class BpeBacktracker {
 public:
  // `texts` are the bytes of the symbols by id; "": no word has the symbol. `first_symbols` are the
  // symbols that a word has before the first merge. `merges` are {left, right, joined}, by rank,
  // and `ranks` is of them; it must outlive the result. Returns nothing for a model that it cannot
  // encode:
  //  - two symbols have one text
  //  - a text can reach a merge before the merges of its parts
  template <class Merge>
  static std::optional<BpeBacktracker> of(std::span<const std::string_view> texts,
                                          std::span<const int32_t> first_symbols,
                                          const std::vector<Merge>& merges,
                                          const PairRanks& ranks) {
    BpeBacktracker made(ranks, texts.size());
    for (const int32_t symbol : first_symbols) made.token(symbol).rank = kFirst;
    std::vector<Merge> others;
    for (uint32_t rank = 0; rank < merges.size(); ++rank) {
      const Merge& merge = merges[rank];
      if (ranks.rank(merge.left, merge.right) != rank) continue;  // a later one counts
      if (!made.is_made(merge.joined) && made.may_meet(merge.left, merge.right)) {
        made.token(merge.joined) = {.rank = rank + 1, .left = merge.left, .right = merge.right};
      } else {
        others.push_back(merge);
      }
    }
    for (const Merge& merge : others) {
      if (made.may_meet(merge.left, merge.right)) return std::nullopt;
    }
    if (!made.add_texts(texts)) return std::nullopt;
    return made;
  }

  class Scratch {
   private:
    friend class BpeBacktracker;
    std::vector<uint64_t> dead_;   // bits of places from which no tokens lead to the end
    std::vector<uint64_t> pairs_;  // by hash: two symbols, and whether they agree
  };
  // Appends the ids of a word to `ids`. Returns false, with `ids` unchanged, where no symbol has
  // the text at some place.
  bool encode(std::string_view word, Scratch& scratch, std::vector<int32_t>& ids) const {
    const size_t first = ids.size();
    bool has_dead = false;
    scratch.pairs_.resize(kPairs, kNoPair);
    int32_t next = longest(word, 0);
    for (size_t at = 0; at < word.size();) {
      // The longest token that agrees with the one before and does not lead to a dead place.
      int32_t token = next;
      while (token >= 0) {
        const size_t end = at + tokens_[static_cast<size_t>(token)].size;
        const bool is_dead = has_dead && (scratch.dead_[end / 64] >> end % 64 & 1) != 0;
        if (!is_dead && (ids.size() == first || agree(ids.back(), token, scratch))) break;
        token = tokens_[static_cast<size_t>(token)].shorter;
      }
      if (token >= 0) {
        ids.push_back(token);
        at += tokens_[static_cast<size_t>(token)].size;
        next = longest(word, at);
        continue;
      }
      if (ids.size() == first) return false;
      if (!has_dead) scratch.dead_.assign(word.size() / 64 + 1, 0);
      has_dead = true;
      scratch.dead_[at / 64] |= uint64_t{1} << at % 64;
      next = ids.back();
      ids.pop_back();
      at -= tokens_[static_cast<size_t>(next)].size;
    }
    return true;
  }

 private:
  // A symbol that a text can have.
  struct Token {
    uint32_t rank = kNever;  // of the merge that makes it, plus one; kFirst: no merge does
    int32_t left = -1;       // the two symbols of this merge
    int32_t right = -1;
    int32_t shorter = -1;  // the longest other symbol with which its text begins
    uint32_t size = 0;     // in bytes
  };
  static constexpr uint32_t kNever = UINT32_MAX;
  static constexpr uint32_t kFirst = 0;

  BpeBacktracker(const PairRanks& ranks, size_t num_symbols)
      : ranks_(&ranks), tokens_(num_symbols) {}
  Token& token(int32_t symbol) { return tokens_[static_cast<size_t>(symbol)]; }
  bool is_made(int32_t symbol) const { return tokens_[static_cast<size_t>(symbol)].rank != kNever; }
  // Returns whether a text can have both symbols side by side before they are merged.
  bool may_meet(int32_t left, int32_t right) const {
    return is_made(left) && is_made(right) && !is_crossed(left, right, /*with_whole=*/false);
  }
  // Returns false where two symbols have one text.
  bool add_texts(std::span<const std::string_view> texts);

  // Most pairs of neighbours were neighbours before, and one look at 64 KiB of memory tells.
  static constexpr int kPairBits = 13;
  static constexpr size_t kPairs = size_t{1} << kPairBits;
  static constexpr uint64_t kNoPair = UINT64_MAX;
  bool agree(int32_t left, int32_t right, Scratch& scratch) const {
    // A symbol has less than 31 bits.
    const uint64_t pair =
        uint64_t{static_cast<uint32_t>(left)} << 32 | uint64_t{static_cast<uint32_t>(right)} << 1;
    uint64_t& known = scratch.pairs_[pair * 0x9E3779B97F4A7C15ULL >> (64 - kPairBits)];
    if ((known & ~uint64_t{1}) != pair)
      known = pair | uint64_t{!is_crossed(left, right, /*with_whole=*/true)};
    return (known & 1) != 0;
  }

  // Returns the longest symbol at a place of a word; -1 without one.
  int32_t longest(std::string_view word, size_t begin) const {
    int32_t found = -1;
    ByteTrie::Node node = ByteTrie::kRoot;
    for (size_t i = begin; i < word.size(); ++i) {
      node = trie_.step(node, word[i]);
      if (node == ByteTrie::kNone) break;
      if (const int32_t symbol = trie_.value(node); symbol >= 0) found = symbol;
    }
    return found;
  }

  // Returns whether BPE of the text of both symbols merges symbols on both sides of the boundary
  // between them. Without `with_whole`, a merge of the two symbols themselves does not count.
  //
  // It goes back in time: the pair at the boundary is there from the merge that made the later of
  // its two symbols until the first merge that takes one of them away.
  bool is_crossed(int32_t left, int32_t right, bool with_whole) const {
    uint32_t left_until = kNever;
    uint32_t right_until = kNever;
    for (bool counts = with_whole;; counts = true) {
      if (counts) {
        const uint32_t rank = ranks_->rank(left, right);
        // Of equal ranks the leftmost pair is merged first.
        if (rank != BpeJoin::kNone && rank + 1 < left_until && rank + 1 <= right_until) return true;
      }
      const Token& a = tokens_[static_cast<size_t>(left)];
      const Token& b = tokens_[static_cast<size_t>(right)];
      if (a.rank > b.rank) {
        left_until = a.rank;
        left = a.right;
      } else if (b.rank != kFirst) {
        right_until = b.rank;
        right = b.left;
      } else {
        return false;
      }
    }
  }

  const PairRanks* ranks_;
  std::vector<Token> tokens_;  // by id
  ByteTrie trie_ = ByteTrie({});
};

}  // namespace lmtrain
