// The characters that a sentencepiece model replaces before it encodes (precompiled_charsmap): a
// double array of Darts over texts, with a replacement for each. The bytes are checked by
// table_problem() of model_check.h first.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace lmtrain {

class CharacterTable {
 public:
  // An empty table replaces nothing. Requires that table_problem(bytes) finds nothing in others.
  explicit CharacterTable(std::string_view bytes);

  bool empty() const { return units_.empty(); }
  // Returns the size of the longest text of the table with which `text` begins, and stores its
  // replacement; returns 0 and leaves `replacement` alone where there is none.
  size_t find(std::string_view text, std::string_view& replacement) const;

 private:
  std::vector<uint32_t> units_;
  std::string replacements_;  // each ends in a NUL
};

}  // namespace lmtrain
