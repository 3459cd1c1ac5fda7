// Decides which text of data.train is held out: whole documents, or blocks of documents
// (content_blocks.h) where a source has too few documents or one that is too large. A source is one
// entry of data.train; entries that have documents in common (overlap.h) are one source. The
// decision needs one pass over each entry, and for blocks at least one more. It depends only on the
// text, the fraction and the source of each document; no seed enters. docs/data.md states the
// rules.
//
// Sizes are bytes of text, or for token files tokens. Hashes of documents and blocks are
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

// Returns whether `hash` / 2^64 is below `fraction`.
bool is_below(uint64_t hash, double fraction);

struct HoldOutScale {
  uint64_t floor;  // hold out at least this, or a tenth of the text where that is less
  uint64_t smallest_block, largest_block;
};
inline constexpr HoldOutScale kHoldOutBytes{uint64_t{64} << 10, 256, uint64_t{16} << 10};
inline constexpr HoldOutScale kHoldOutTokens{uint64_t{16} << 10, 64, uint64_t{4} << 10};

// A SourceShape sums up the documents of one source: their number, sizes and range of hashes.
struct SourceShape {
  int64_t documents = 0;
  uint64_t size = 0;
  uint64_t largest = 0;  // size of the largest document
  uint64_t smallest_hash = UINT64_MAX;
  uint64_t largest_hash = 0;

  void add(uint64_t hash, uint64_t document_size);
  SourceShape& operator+=(const SourceShape& other);
};

// Collects the shapes of all sources, and a hash of which document is from which source.
class SourceShapes {
 public:
  // Adds a document. Documents come in the order of the corpus.
  void add(int32_t source, uint64_t hash, uint64_t size);
  const std::vector<SourceShape>& shapes() const { return shapes_; }
  // Returns the hash of the sequence of sources, document by document.
  const Hash128& order() const { return order_; }
  int32_t last_source() const { return last_source_; }
  void load(std::vector<SourceShape> shapes, const Hash128& order, int32_t last_source);

 private:
  std::vector<SourceShape> shapes_;  // by source
  Hash128 order_ = Hasher().digest();
  int32_t last_source_ = -1;
};

// A HoldOutRule says how text of one source, or of several small sources together, is held out.
struct HoldOutRule {
  uint64_t block = 0;              // approximate size of a block; 0 for whole documents
  double fraction = 0;             // documents with is_below(hash, fraction) are held out
  std::vector<uint64_t> chosen{};  // hashes of the blocks held out, ascending
  bool operator==(const HoldOutRule&) const = default;
};

// Chooses the blocks of one rule: the blocks with the smallest hashes, until their total size
// reaches `target`. Equal blocks count as one, with their total size. A block is heavy if that size
// is above both the target and the largest size of a block. Heavy blocks are skipped; only where
// all blocks are heavy, it chooses the lightest of them. It holds up to 65536 different blocks in
// memory, or more where the target needs more.
class BlockChoice {
 public:
  BlockChoice(uint64_t target, uint64_t block);
  void add(uint64_t hash, uint64_t size);
  // Call it after all blocks were added. Returns false when the caller must add all blocks again,
  // because heavy blocks had displaced others.
  bool end_pass();
  // Returns the hashes of the chosen blocks, ascending. At least one block is left to train on, so
  // a text of one block gives none.
  std::vector<uint64_t> chosen() const;

 private:
  static constexpr size_t kMostKept = size_t{1} << 16;

  bool is_heavy(uint64_t size) const { return size > heaviest_; }
  void trim();

  uint64_t target_;
  uint64_t heaviest_;                    // the most that equal blocks may have together
  std::map<uint64_t, uint64_t> blocks_;  // hash, size of all equal ones; the smallest hashes
  std::map<uint64_t, uint64_t> heavy_;   // likewise, of heavy ones that an earlier pass found
  uint64_t size_ = 0;                    // total size of the blocks_ that are not heavy
  // The smallest hash that was dropped in this pass. add() skips it and all larger ones: the total
  // size of a dropped block is lost.
  std::optional<uint64_t> dropped_;
};

class HoldOut {
 public:
  // Holds out nothing.
  HoldOut() = default;
  // Makes the rules for a fraction of the text; 0 holds out nothing, whatever the floor. `sources`
  // has the shape of each entry of data.train, and `groups` is
  // CommonDocuments::groups(sources.size()). Where a rule has blocks, choose() must follow.
  HoldOut(double fraction, const std::vector<SourceShape>& sources,
          const std::vector<int32_t>& groups, const HoldOutScale& scale);
  // Returns the share of the text to hold out: `fraction`, or more where the floor needs it; 0
  // after load().
  double share() const { return share_; }
  // Returns the groups of entries that are one source because they have documents in common. Lists
  // only groups in which an entry by itself would be held out in blocks; none after load().
  const std::vector<std::vector<int32_t>>& joined() const { return joined_; }

  // Chooses the blocks of all rules that have blocks. It calls `for_each_block(wanted, add)` once
  // or more; that must call add(source, hash, size) for all blocks of the sources for which
  // wanted(source) is true.
  template <class ForEachBlock>
  void choose(const ForEachBlock& for_each_block);

  // Returns the rule of `source`, which must have had documents when the rules were made. A source
  // beyond the end of rules_of_sources() has a rule that holds out nothing.
  const HoldOutRule& rule_of(int32_t source) const;
  // Returns whether the document with this hash is held out; where the rule of `source` has blocks,
  // the block with this hash.
  bool holds_out(int32_t source, uint64_t hash) const;
  bool holds_out_any() const;

  // rules_of_sources() has, for each source, the index of its rule in rules().
  const std::vector<size_t>& rules_of_sources() const { return rule_of_source_; }
  const std::vector<HoldOutRule>& rules() const { return rules_; }
  void load(std::vector<size_t> rule_of_source, std::vector<HoldOutRule> rules);

  // Adds the rules, and where they differ `sources`, which is SourceShapes::order(), to `hasher`.
  // Adds nothing when all rules hold out whole documents by this `fraction`.
  void add_to(Hasher& hasher, double fraction, const Hash128& sources) const;

 private:
  std::vector<size_t> rule_of_source_;
  std::vector<HoldOutRule> rules_;
  std::vector<uint64_t> targets_;  // target of each rule, for choose()
  double share_ = 0;
  std::vector<std::vector<int32_t>> joined_;
};

// Logs a note for each group of HoldOut::joined().
void note_joined_sources(const HoldOut& held_out);

// A TextPart is a run of neighbouring blocks of a document, either all held out or all trained on.
struct TextPart {
  std::string_view text;
  bool held_out = false;
};
// Returns the parts of a document, in order; joined they are `text`, and point into it. `hash` is
// hash128(text). A rule for whole documents gives one part.
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
