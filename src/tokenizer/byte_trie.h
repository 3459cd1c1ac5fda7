// A set of strings with a number for each, for walks byte by byte in inner loops: a double array
// (Aoe 1989), in which a step reads one node. It is built once and immutable.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace lmtrain {

class ByteTrie {
 public:
  struct Entry {
    std::string text;  // not empty
    int32_t value;     // not negative
    float weight = 0;
  };
  // The first of several entries with equal texts counts.
  explicit ByteTrie(std::vector<Entry> entries);

  using Node = uint32_t;
  static constexpr Node kRoot = 0;
  static constexpr Node kNone = UINT32_MAX;

  // Returns the node that `byte` leads to, or kNone.
  Node step(Node node, char byte) const {
    const Node next = cells_[node].base ^ static_cast<unsigned char>(byte);
    return cells_[next].parent == node ? next : kNone;
  }
  // Returns the value of the text that ends at the node, or -1.
  int32_t value(Node node) const { return cells_[node].value; }
  float weight(Node node) const { return cells_[node].weight; }
  // Returns the size of the longest text with which `text` begins, or 0. Stores the value of that
  // text in *found, unless `found` is null or there is none.
  size_t longest(std::string_view text, int32_t* found = nullptr) const;
  bool empty() const { return is_empty_; }

 private:
  struct Cell {
    uint32_t base = 0;
    uint32_t parent = kNone;  // kNone: the cell is free
    int32_t value = -1;
    float weight = 0;
  };
  class Builder;

  std::vector<Cell> cells_;
  bool is_empty_ = true;
};

}  // namespace lmtrain
