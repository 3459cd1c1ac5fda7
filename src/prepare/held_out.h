// Decides which text of data.train is held out: whole documents, or blocks of documents where a
// source has too few documents or one that is too large (content_blocks.h). A source is one entry
// of data.train; entries that have documents in common (overlap.h) are one source. The
// decision takes what one pass found in each entry and, for blocks, a second pass over these.
// Everything is a function of the text, the fraction and which documents are of one source; no seed
// enters. docs/data.md states the rules.
//
// All sizes are bytes of text, or tokens of token files. All hashes of documents and blocks are
// text_hash().
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string_view>
#include <vector>

#include "base/hash.h"

namespace lmtrain {

// Returns whether `hash` lies in the lowest `fraction` of all 64-bit values.
bool is_below(uint64_t hash, double fraction);

struct HoldOutScale {
  uint64_t floor;  // hold out at least this, or a tenth of the text where that is less
  uint64_t smallest_block, largest_block;
};
inline constexpr HoldOutScale kHoldOutBytes{uint64_t{64} << 10, 256, uint64_t{16} << 10};
inline constexpr HoldOutScale kHoldOutTokens{uint64_t{16} << 10, 64, uint64_t{4} << 10};

// A SourceShape has number, sizes and hashes of the documents of one source.
struct SourceShape {
  int64_t documents = 0;
  uint64_t size = 0;
  uint64_t largest = 0;  // size of the largest document
  uint64_t smallest_hash = UINT64_MAX;
  uint64_t largest_hash = 0;

  void add(uint64_t hash, uint64_t document_size);
  SourceShape& operator+=(const SourceShape& other);
};

// Collects the shapes of all sources, and a hash of the source of each document.
class SourceShapes {
 public:
  // Adds a document. Documents come in the order of the corpus.
  void add(int32_t source, uint64_t hash, uint64_t size);
  const std::vector<SourceShape>& shapes() const { return shapes_; }
  // Returns the hash of the source of each document, in the order of documents.
  const Hash128& order() const { return order_; }
  int32_t last_source() const { return last_source_; }
  void restore(std::vector<SourceShape> shapes, const Hash128& order, int32_t last_source);

 private:
  std::vector<SourceShape> shapes_;  // by source
  Hash128 order_ = Hasher().digest();
  int32_t last_source_ = -1;
};

// Says how the text of one or several sources is held out.
struct HoldOutRule {
  uint64_t block = 0;              // approximate size of a block; 0 for whole documents
  double fraction = 0;             // documents with is_below(hash, fraction) are held out
  std::vector<uint64_t> chosen{};  // hashes of the blocks held out, ascending
  bool operator==(const HoldOutRule&) const = default;
};

// Chooses the blocks of one rule: the blocks with the smallest hashes, until their total size
// reaches `target`. Blocks of equal text are chosen together. They are heavy, and passed over, if
// their total size is above both the target and the largest size of a block. It holds up to 65536
// different blocks in memory, or more where the target needs more.
class BlockChoice {
 public:
  BlockChoice(uint64_t target, uint64_t block);
  void add(uint64_t hash, uint64_t size);
  // Call it after all blocks were added. Returns false when all must be added again, because heavy
  // blocks took the place of others.
  bool end_pass();
  // Returns the hashes of the chosen blocks. These are never all blocks, so a text that is one
  // block has none.
  std::vector<uint64_t> chosen() const;

 private:
  static constexpr size_t kMostKept = size_t{1} << 16;

  bool is_heavy(uint64_t size) const { return size > heaviest_; }
  void trim();

  uint64_t target_;
  uint64_t heaviest_;                    // that equal blocks may be together
  std::map<uint64_t, uint64_t> blocks_;  // hash, size of all equal ones; the smallest hashes
  std::map<uint64_t, uint64_t> heavy_;   // likewise, passed over
  uint64_t size_ = 0;                    // total size of the blocks_ that are not heavy
  // The smallest hash that was dropped in this pass. The total size of a block that comes again
  // after it was dropped is not known any more.
  std::optional<uint64_t> dropped_;
};

class HoldOut {
 public:
  // Makes a split in which nothing is held out.
  HoldOut() = default;
  // Makes the rules for a fraction of the text; with 0 nothing is held out, whatever the floor.
  // `sources` holds the shape of each entry by number, and `groups` what
  // CommonDocuments::groups() returns for them. Where a rule has blocks, choose() must follow.
  HoldOut(double fraction, const std::vector<SourceShape>& sources,
          const std::vector<int32_t>& groups, const HoldOutScale& scale);
  // Returns the part of the text to be held out: `fraction`, or more where the floor needs it; 0
  // after restore().
  double share() const { return share_; }
  // Returns the groups of entries that are one source because they have documents in common, where
  // one of them alone would be held out in blocks; none after restore().
  const std::vector<std::vector<int32_t>>& joined() const { return joined_; }

  // Chooses the blocks of all rules that have blocks. `for_each_block(wanted, add)` must call
  // add(source, hash, size) for all blocks of the sources for which wanted(source) is true; it may
  // be called more than once.
  template <class ForEachBlock>
  void choose(const ForEachBlock& for_each_block);

  // Returns the rule of a source that had documents when the rules were made. For a source whose
  // number is above all of these, and in a split without rules, the rule holds out nothing.
  const HoldOutRule& rule_of(int32_t source) const;
  // Returns whether the document with this hash is held out, or, where the rule of its source has
  // blocks, the block with this hash.
  bool holds_out(int32_t source, uint64_t hash) const;
  bool holds_out_any() const;

  // These return, for each source, the index of its rule in rules(), and the rules.
  const std::vector<size_t>& rules_of_sources() const { return rule_of_source_; }
  const std::vector<HoldOutRule>& rules() const { return rules_; }
  void restore(std::vector<size_t> rule_of_source, std::vector<HoldOutRule> rules);

  // Adds what decides the split to `hasher`; adds nothing when documents are held out by their hash
  // and this fraction alone. `sources` is SourceShapes::order().
  void add_to(Hasher& hasher, double fraction, const Hash128& sources) const;

 private:
  std::vector<size_t> rule_of_source_;
  std::vector<HoldOutRule> rules_;
  std::vector<uint64_t> targets_;  // target of each rule, for choose()
  double share_ = 0;
  std::vector<std::vector<int32_t>> joined_;
};

// Prints which entries of data.train are one source, where HoldOut::joined() has some.
void note_joined_sources(const HoldOut& held_out);

// A TextPart is one or more neighbouring blocks of a document, all held out or none.
struct TextPart {
  std::string_view text;
  bool held_out = false;
};
// Returns the parts of a document, in order; together they are the text. `hash` is hash128() of the
// document. Under a rule for whole documents there is one part.
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
