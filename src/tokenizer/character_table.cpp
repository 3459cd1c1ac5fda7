#include "tokenizer/character_table.h"

#include <cstddef>

#include "base/bytes.h"

namespace lmtrain {

CharacterTable::CharacterTable(std::string_view bytes) {
  if (bytes.empty()) return;
  const auto size = value_at<uint32_t>(bytes.data());
  for (uint32_t at = 4; at < 4 + size; at += 4)
    units_.push_back({value_at<uint32_t>(bytes.data() + at)});
  replacements_ = bytes.substr(4 + size_t{size});
}

size_t CharacterTable::find(std::string_view text, std::string_view& replacement) const {
  if (units_.empty()) return 0;
  uint32_t position = units_[0].offset();
  size_t longest = 0;
  uint32_t found = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    const TrieUnit unit = units_[position ^ byte];
    if (unit.label() != byte) break;
    position ^= byte ^ unit.offset();
    if (!unit.ends_text()) continue;
    longest = i + 1;
    found = units_[position].value();
  }
  if (longest > 0) replacement = replacements_.data() + found;
  return longest;
}

}  // namespace lmtrain
