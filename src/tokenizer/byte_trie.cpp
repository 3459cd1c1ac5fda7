#include "tokenizer/byte_trie.h"

#include <algorithm>

namespace lmtrain {
namespace {

constexpr uint32_t kBlock = 256;  // a base and all that it leads to lie in one block
constexpr uint32_t kRootParent = UINT32_MAX - 1;
constexpr int kMostTries = 64;  // free cells that are tried for a node before a block is added

}  // namespace

// Finds cells for the nodes, the parent before its children.
class ByteTrie::Builder {
 public:
  Builder(const std::vector<Entry>& entries, std::vector<Cell>& cells)
      : entries_(entries), cells_(cells) {
    add_block();
    take(kRoot, kRootParent);
  }

  void build() {
    std::vector<Range> open = {{0, entries_.size(), 0, kRoot}};
    while (!open.empty()) {
      const Range range = open.back();
      open.pop_back();
      place_children(range, open);
    }
  }

 private:
  // The entries that share the first `depth` bytes, which lead to `node`.
  struct Range {
    size_t begin;
    size_t end;
    size_t depth;
    uint32_t node;
  };

  void place_children(Range range, std::vector<Range>& open) {
    for (; range.begin < range.end && entries_[range.begin].text.size() == range.depth;
         ++range.begin) {
      Cell& cell = cells_[range.node];
      if (cell.value >= 0) continue;
      cell.value = entries_[range.begin].value;
      cell.weight = entries_[range.begin].weight;
    }
    if (range.begin == range.end) return;
    labels_.clear();
    const auto label_at = [&](size_t i) {
      return static_cast<unsigned char>(entries_[i].text[range.depth]);
    };
    for (size_t i = range.begin; i < range.end; ++i) {
      if (labels_.empty() || labels_.back() != label_at(i)) labels_.push_back(label_at(i));
    }
    const uint32_t base = find_base();
    cells_[range.node].base = base;
    for (size_t i = range.begin; i < range.end;) {
      const unsigned char label = label_at(i);
      const size_t begin = i;
      while (i < range.end && label_at(i) == label) ++i;
      take(base ^ label, range.node);
      open.push_back({begin, i, range.depth + 1, base ^ label});
    }
  }

  uint32_t find_base() {
    for (int tries = 0; tries < kMostTries && free_ != kNone; ++tries) {
      const uint32_t base = free_ ^ labels_.front();
      const bool fits = std::all_of(labels_.begin(), labels_.end(), [&](unsigned char label) {
        return cells_[base ^ label].parent == kNone;
      });
      if (fits) return base;
      free_ = next_[free_];
    }
    return add_block();
  }

  // Returns where the block begins. Its cells are the first that are tried.
  uint32_t add_block() {
    const auto begin = static_cast<uint32_t>(cells_.size());
    cells_.resize(begin + kBlock);
    for (uint32_t cell = begin; cell < begin + kBlock; ++cell) {
      next_.push_back(cell + 1);
      before_.push_back(cell - 1);
    }
    const uint32_t last = begin + kBlock - 1;
    if (free_ == kNone) {
      next_[last] = begin;
      before_[begin] = last;
    } else {  // the free cells form a circle
      const uint32_t before = before_[free_];
      next_[before] = begin;
      before_[begin] = before;
      next_[last] = free_;
      before_[free_] = last;
    }
    free_ = begin;
    return begin;
  }

  void take(uint32_t cell, uint32_t parent) {
    cells_[cell].parent = parent;
    if (next_[cell] == cell) {
      free_ = kNone;
      return;
    }
    next_[before_[cell]] = next_[cell];
    before_[next_[cell]] = before_[cell];
    if (free_ == cell) free_ = next_[cell];
  }

  const std::vector<Entry>& entries_;
  std::vector<Cell>& cells_;
  std::vector<unsigned char> labels_;
  std::vector<uint32_t> next_;
  std::vector<uint32_t> before_;
  uint32_t free_ = kNone;  // a free cell, where the search begins
};

ByteTrie::ByteTrie(std::vector<Entry> entries) : is_empty_(entries.empty()) {
  const auto is_before = [](const Entry& a, const Entry& b) { return a.text < b.text; };
  if (!std::is_sorted(entries.begin(), entries.end(), is_before))
    std::stable_sort(entries.begin(), entries.end(), is_before);
  Builder(entries, cells_).build();
}

size_t ByteTrie::longest(std::string_view text, int32_t* found) const {
  Node node = kRoot;
  size_t longest = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    node = step(node, text[i]);
    if (node == kNone) break;
    if (value(node) < 0) continue;
    longest = i + 1;
    if (found != nullptr) *found = value(node);
  }
  return longest;
}

}  // namespace lmtrain
