// Which text of data.train is held out: whole documents, or blocks of documents where a source has
// too few of them or one that is too large. Decided from what one pass found in each source, and,
// for blocks, a second pass over these sources. Everything is a function of the text, the fraction
// and which documents are of one source; no seed enters. docs/data.md states the rules.
//
// Sizes are bytes of text, or tokens of token files.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string_view>
#include <vector>

#include "base/hash.h"
#include "corpus/readers/text_hash.h"

namespace lmtrain {

// Whether `hash` lies in the lowest `fraction` of all 64-bit values.
bool is_below(uint64_t hash, double fraction);

struct HoldOutScale {
  uint64_t floor;  // hold out so much in all, while it is at most a tenth
  uint64_t smallest_block, largest_block;
};
inline constexpr HoldOutScale kHoldOutBytes{uint64_t{64} << 10, 256, uint64_t{16} << 10};
inline constexpr HoldOutScale kHoldOutTokens{uint64_t{16} << 10, 64, uint64_t{4} << 10};

// Number, sizes and hashes of the documents of a source.
struct SourceShape {
  int64_t documents = 0;
  uint64_t size = 0;
  uint64_t largest = 0;  // document
  uint64_t smallest_hash = UINT64_MAX;
  uint64_t largest_hash = 0;

  void add(uint64_t hash, uint64_t document_size);
  SourceShape& operator+=(const SourceShape& other);
};

// The shapes of all sources, and what stands for which documents are of which source.
class SourceShapes {
 public:
  // Documents in the order of the corpus.
  void add(int32_t source, uint64_t hash, uint64_t size);
  const std::vector<SourceShape>& shapes() const { return shapes_; }
  const Hash128& order() const { return order_; }
  int32_t last_source() const { return last_source_; }
  void restore(std::vector<SourceShape> shapes, const Hash128& order, int32_t last_source);

 private:
  std::vector<SourceShape> shapes_;  // by source
  Hash128 order_ = Hasher().digest();
  int32_t last_source_ = -1;
};

// How the text of one or several sources is held out.
struct HoldOutRule {
  uint64_t block = 0;              // about the size of a block; 0: whole documents
  double fraction = 0;             // of documents: held out when their hash is below
  std::vector<uint64_t> chosen{};  // hashes of the blocks that are held out, ascending
  bool operator==(const HoldOutRule&) const = default;
};

// Chooses blocks of one rule: the smallest hashes, up to `target`. Memory: what is chosen.
class BlockChoice {
 public:
  BlockChoice(uint64_t target, uint64_t block);
  void add(uint64_t hash, uint64_t size);
  // After all blocks were added: false when all must be added again, since a text that is repeated
  // too often to be held out stood in the way.
  bool end_pass();
  // Never all blocks; none of a text that is one block.
  std::vector<uint64_t> chosen() const;

 private:
  bool is_heavy(uint64_t size) const { return size > heaviest_; }
  void trim();

  uint64_t target_;
  uint64_t heaviest_;                    // that equal blocks may be together
  std::map<uint64_t, uint64_t> blocks_;  // hash, size of all equal ones; the smallest hashes
  std::map<uint64_t, uint64_t> heavy_;   // likewise, passed over
  uint64_t size_ = 0;                    // of blocks_ that are not heavy
  bool dropped_ = false;                 // there are larger hashes
};

class HoldOut {
 public:
  // Nothing is held out.
  HoldOut() = default;
  // `sources` by number. Where a rule is by blocks, choose() follows.
  HoldOut(double fraction, const std::vector<SourceShape>& sources, const HoldOutScale& scale);
  // The part of the text to be held out: `fraction`, or more where the floor needs it. 0 after
  // restore().
  double share() const { return share_; }

  // `for_each_block(wanted, add)` calls add(source, hash, size) for all blocks of the sources that
  // are wanted; it may be called more than once.
  template <class ForEachBlock>
  void choose(const ForEachBlock& for_each_block);

  const HoldOutRule& rule_of(int32_t source) const;
  // Whether the document with this hash is held out, or, where the rule of its source has blocks,
  // the block with this hash.
  bool holds_out(int32_t source, uint64_t hash) const;
  bool holds_out_any() const;

  // Which rule each source has, and the rules.
  const std::vector<size_t>& rules_of_sources() const { return rule_of_source_; }
  const std::vector<HoldOutRule>& rules() const { return rules_; }
  void restore(std::vector<size_t> rule_of_source, std::vector<HoldOutRule> rules);

  // Adds what decides the split; nothing when documents are held out by their hash and this
  // fraction alone. `sources` stands for which documents are of which source.
  void add_to(Hasher& hasher, double fraction, const Hash128& sources) const;

 private:
  std::vector<size_t> rule_of_source_;
  std::vector<HoldOutRule> rules_;
  std::vector<uint64_t> targets_;  // of each rule, for choose()
  double share_ = 0;
};

// The hash of the block of a document that begins at `begin`; `hash` is that of its text. A
// document of one block has the hash of the document.
inline uint64_t block_hash(uint64_t hash, uint64_t begin) {
  return begin == 0 ? hash : hash_combine(hash, begin);
}

// Where the blocks of a text end: behind the last newline of the second half of `block` bytes, else
// between two characters. The last has up to 1.5 times `block`. An empty text is one block.
std::vector<size_t> block_ends(std::string_view text, uint64_t block);

// Neighbouring blocks of a document on the same side.
struct TextPart {
  std::string_view text;
  bool held_out = false;
};
// The parts of a document, in order; together they are the text. `hash` is that of the document.
std::vector<TextPart> cut_document(const HoldOut& held_out, int32_t source, std::string_view text,
                                   const Hash128& hash);

template <class ForEachBlock>
void HoldOut::choose(const ForEachBlock& for_each_block) {
  std::vector<BlockChoice> choices;
  std::vector<char> open;
  for (size_t i = 0; i < rules_.size(); ++i) {
    choices.emplace_back(targets_[i], rules_[i].block);
    open.push_back(static_cast<char>(rules_[i].block > 0));
  }
  const auto wanted = [&](int32_t source) {
    const auto index = static_cast<size_t>(source);  // the last sources may have no document
    return index < rule_of_source_.size() && open[rule_of_source_[index]] != 0;
  };
  while (std::find(open.begin(), open.end(), 1) != open.end()) {
    for_each_block(wanted, [&](int32_t source, uint64_t hash, uint64_t size) {
      choices[rule_of_source_[static_cast<size_t>(source)]].add(hash, size);
    });
    for (size_t i = 0; i < rules_.size(); ++i) {
      if (open[i] == 0 || !choices[i].end_pass()) continue;
      rules_[i].chosen = choices[i].chosen();
      open[i] = 0;
    }
  }
}

}  // namespace lmtrain
