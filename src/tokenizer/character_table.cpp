#include "tokenizer/character_table.h"

#include <cstddef>

namespace lmtrain {
namespace {

uint32_t little_endian(std::string_view bytes) {
  uint32_t value = 0;
  for (unsigned i = 0; i < 4; ++i)
    value |= uint32_t{static_cast<unsigned char>(bytes[i])} << (8 * i);
  return value;
}

uint32_t offset(uint32_t unit) { return (unit >> 10) << ((unit & (1U << 9)) >> 6); }
uint32_t label(uint32_t unit) { return unit & ((1U << 31) | 0xFFU); }
bool ends_text(uint32_t unit) { return (unit >> 8 & 1U) != 0; }
uint32_t value(uint32_t unit) { return unit & ~(1U << 31); }

}  // namespace

CharacterTable::CharacterTable(std::string_view bytes) {
  if (bytes.empty()) return;
  const uint32_t size = little_endian(bytes);
  for (uint32_t at = 4; at < 4 + size; at += 4) units_.push_back(little_endian(bytes.substr(at)));
  replacements_ = bytes.substr(4 + size_t{size});
}

size_t CharacterTable::find(std::string_view text, std::string_view& replacement) const {
  if (units_.empty()) return 0;
  uint32_t position = offset(units_[0]);
  size_t longest = 0;
  uint32_t found = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    const uint32_t unit = units_[position ^ byte];
    if (label(unit) != byte) break;
    position ^= byte ^ offset(unit);
    if (!ends_text(unit)) continue;
    longest = i + 1;
    found = value(units_[position]);
  }
  if (longest > 0) replacement = replacements_.data() + found;
  return longest;
}

}  // namespace lmtrain
