// The texts that a sentencepiece model replaces before it encodes, and their replacements
// (precompiled_charsmap). A table is immutable, so threads may share it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace lmtrain {

// A unit of the double array that leads to the replacements. From a node at position p the byte b
// leads to the unit p ^ b if that has the label b. The unit says where the next node is, and
// whether a text ends here, whose value is then the unit at the position of that node.
struct TrieUnit {
  uint32_t bits;

  uint32_t offset() const { return (bits >> 10) << ((bits & (1U << 9)) >> 6); }
  uint32_t label() const { return bits & ((1U << 31) | 0xFFU); }
  bool ends_text() const { return (bits >> 8 & 1U) != 0; }
  uint32_t value() const { return bits & ~(1U << 31); }
};

class CharacterTable {
 public:
  // Empty bytes make a table that replaces nothing. For other bytes table_problem() of
  // model_check.h must find nothing.
  explicit CharacterTable(std::string_view bytes);

  bool empty() const { return units_.empty(); }
  // Returns the size in bytes of the table's longest text with which `text` begins, and stores its
  // replacement, a view of the table. Without such a text it returns 0 and stores nothing.
  size_t find(std::string_view text, std::string_view& replacement) const;

 private:
  std::vector<TrieUnit> units_;
  std::string replacements_;  // each ends in a NUL
};

}  // namespace lmtrain
