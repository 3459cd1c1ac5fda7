// The texts that a sentencepiece model replaces before it encodes, and their replacements
// (precompiled_charsmap). A table is immutable, so threads may share it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace lmtrain {

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
  std::vector<uint32_t> units_;
  std::string replacements_;  // each ends in a NUL
};

}  // namespace lmtrain
