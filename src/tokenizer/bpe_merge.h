// Joins the symbols of one word by byte pair encoding (Sennrich et al. 2016, arXiv:1508.07909). The
// pair of the lowest rank is joined first, and of equal ranks the leftmost pair. A word of n
// symbols takes time O(n log n). Only one thread at a time may use a BpeMerge.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

namespace lmtrain {

// The join of two neighbours. The rank is kNone if they cannot be joined.
struct BpeJoin {
  static constexpr uint32_t kNone = UINT32_MAX;
  uint32_t rank = kNone;  // lower is earlier
  int32_t symbol = -1;
};

class BpeMerge {
 public:
  static constexpr uint32_t kEnd = UINT32_MAX;  // no such node
  // A run of characters that is one symbol. The nodes of a word form a linked list.
  struct Node {
    int32_t symbol;
    bool is_fixed;   // never joined
    uint32_t begin;  // what add() was given
    uint32_t previous;
    uint32_t next;
    BpeJoin join;  // join with the next node
  };

  void clear() { nodes_.clear(); }
  // Appends a symbol that may be joined.
  void add(int32_t symbol) { add(symbol, /*is_fixed=*/false, /*begin=*/0); }
  // Appends a symbol. `begin` is for the caller, who finds it in the node: merge() does not use it.
  void add(int32_t symbol, bool is_fixed, uint32_t begin) {
    const auto index = static_cast<uint32_t>(nodes_.size());
    nodes_.push_back({symbol, is_fixed, begin, index - 1, index + 1, {}});
  }
  // Joins pairs until no pair can be joined. Requires at least one symbol, and fewer than kEnd.
  // `table` has `BpeJoin join(int32_t left, int32_t right) const`.
  template <class Table>
  void merge(const Table& table) {
    nodes_.back().next = kEnd;  // before the first, index - 1 is kEnd
    for (uint32_t i = 0; i < nodes_.size(); ++i) find_join(table, i);
    if (nodes_.size() <= kFew) {
      join_few(table);
    } else {
      join_many(table);
    }
  }
  // The first node is node(0). Node::next is the index of the next node, and kEnd in the last one.
  const Node& node(uint32_t index) const { return nodes_[index]; }

 private:
  // Up to this many nodes, looking at all of them is faster than a queue.
  static constexpr size_t kFew = 24;

  template <class Table>
  void find_join(const Table& table, uint32_t left) {
    Node& node = nodes_[left];
    node.join = {};
    if (node.next == kEnd || node.is_fixed || nodes_[node.next].is_fixed) return;
    node.join = table.join(node.symbol, nodes_[node.next].symbol);
  }

  template <class Table>
  void join(const Table& table, uint32_t left) {
    Node& node = nodes_[left];
    Node& right = nodes_[node.next];
    node.symbol = node.join.symbol;
    node.next = right.next;
    if (node.next != kEnd) nodes_[node.next].previous = left;
    right.join = {};
    find_join(table, left);
    if (node.previous != kEnd) find_join(table, node.previous);
  }

  template <class Table>
  void join_few(const Table& table) {
    for (;;) {
      uint32_t best = 0;
      for (uint32_t i = nodes_[0].next; i != kEnd; i = nodes_[i].next) {
        if (nodes_[i].join.rank < nodes_[best].join.rank) best = i;
      }
      if (nodes_[best].join.rank == BpeJoin::kNone) return;
      join(table, best);
    }
  }

  // Does the same with a queue of candidates. A candidate whose node has changed is skipped.
  template <class Table>
  void join_many(const Table& table) {
    const std::greater<> later;
    queue_.clear();
    for (uint32_t i = 0; i < nodes_.size(); ++i) {
      if (nodes_[i].join.rank != BpeJoin::kNone) queue_.emplace_back(nodes_[i].join.rank, i);
    }
    std::make_heap(queue_.begin(), queue_.end(), later);
    const auto add_candidate = [&](uint32_t left) {
      if (left == kEnd || nodes_[left].join.rank == BpeJoin::kNone) return;
      queue_.emplace_back(nodes_[left].join.rank, left);
      std::push_heap(queue_.begin(), queue_.end(), later);
    };
    while (!queue_.empty()) {
      std::pop_heap(queue_.begin(), queue_.end(), later);
      const auto [rank, left] = queue_.back();
      queue_.pop_back();
      if (nodes_[left].join.rank != rank) continue;
      join(table, left);
      add_candidate(left);
      add_candidate(nodes_[left].previous);
    }
  }

  std::vector<Node> nodes_;
  std::vector<std::pair<uint32_t, uint32_t>> queue_;  // rank, left node
};

}  // namespace lmtrain
