#include "base/utf8.h"

#include <algorithm>
#include <cstring>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace lmtrain {
namespace {

// Returns how many bytes from the front are ASCII, as most text is.
size_t ascii_prefix(std::string_view text) {
  size_t size = 0;
#if defined(__SSE2__)
  for (constexpr size_t kStep = 64; size + kStep <= text.size(); size += kStep) {
    const auto* bytes = reinterpret_cast<const __m128i*>(text.data() + size);
    const __m128i any =
        _mm_or_si128(_mm_or_si128(_mm_loadu_si128(bytes), _mm_loadu_si128(bytes + 1)),
                     _mm_or_si128(_mm_loadu_si128(bytes + 2), _mm_loadu_si128(bytes + 3)));
    if (_mm_movemask_epi8(any) != 0) break;
  }
#endif
  for (uint64_t word = 0; size + sizeof word <= text.size(); size += sizeof word) {
    std::memcpy(&word, text.data() + size, sizeof word);
    if ((word & 0x8080808080808080ULL) != 0) break;
  }
  while (size < text.size() && static_cast<unsigned char>(text[size]) < 0x80) ++size;
  return size;
}

// Returns how many bytes from the front are characters of two or three bytes, each perhaps with an
// ASCII character behind it, as far as a look at four bytes tells.
size_t wide_prefix(std::string_view text) {
  const char* at = text.data();
  const char* const end = at + text.size();
  const auto byte = [&](int i) { return static_cast<unsigned char>(at[i]); };
  while (end - at >= 4) {
    const unsigned char lead = byte(0);
    if (lead >= 0xC2 && lead < 0xE0 && is_utf8_continuation(at[1])) {
      at += byte(2) < 0x80 ? 3 : 2;
    } else if (lead > 0xE0 && lead < 0xF0 && lead != 0xED && is_utf8_continuation(at[1]) &&
               is_utf8_continuation(at[2])) {
      at += byte(3) < 0x80 ? 4 : 3;
    } else if (lead == 0xE0 && byte(1) >= 0xA0 && byte(1) < 0xC0 && is_utf8_continuation(at[2])) {
      at += byte(3) < 0x80 ? 4 : 3;
    } else {
      break;
    }
  }
  return static_cast<size_t>(at - text.data());
}

}  // namespace

size_t decode_utf8(std::string_view text, char32_t& code_point) {
  if (text.empty()) return 0;
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(0);
  if (lead < 0x80) {
    code_point = lead;
    return 1;
  }
  const size_t size = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
  if (lead < 0xC2 || lead > 0xF4 || text.size() < size) return 0;
  char32_t value = lead & (0x7FU >> size);
  for (size_t i = 1; i < size; ++i) {
    if (!is_utf8_continuation(text[i])) return 0;
    value = (value << 6) | (byte(i) & 0x3FU);
  }
  constexpr char32_t kSmallest[] = {0, 0, 0x80, 0x800, 0x10000};
  const bool is_surrogate = value >= 0xD800 && value <= 0xDFFF;
  if (value < kSmallest[size] || value > 0x10FFFF || is_surrogate) return 0;
  code_point = value;
  return size;
}

size_t valid_utf8_prefix(std::string_view text) {
  const char* const begin = text.data();
  for (;;) {
    text.remove_prefix(wide_prefix(text));
    const size_t ascii = ascii_prefix(text);
    text.remove_prefix(ascii);
    if (ascii > 0) continue;
    char32_t code_point = 0;
    const size_t size = decode_utf8(text, code_point);
    if (size == 0) return static_cast<size_t>(text.data() - begin);
    text.remove_prefix(size);
  }
}

void append_replacing_malformed(std::string& out, std::string_view text) {
  for (;;) {
    const size_t valid = valid_utf8_prefix(text);
    out += text.substr(0, valid);
    text.remove_prefix(valid);
    if (text.empty()) return;
    append_utf8(out, kReplacementCharacter);
    text.remove_prefix(1);
  }
}

std::string replacing_malformed(std::string_view text) {
  std::string valid;
  valid.reserve(text.size());
  append_replacing_malformed(valid, text);
  return valid;
}

std::string_view utf8_prefix(std::string_view text, size_t most) {
  size_t size = std::min(most, text.size());
  while (size < text.size() && size > 0 && is_utf8_continuation(text[size])) --size;
  return text.substr(0, size);
}

void append_utf8(std::string& out, char32_t code_point) {
  const auto put = [&](char32_t byte) { out += static_cast<char>(byte); };
  if (code_point < 0x80) {
    put(code_point);
  } else if (code_point < 0x800) {
    put(0xC0 | (code_point >> 6));
    put(0x80 | (code_point & 0x3F));
  } else if (code_point < 0x10000) {
    put(0xE0 | (code_point >> 12));
    put(0x80 | ((code_point >> 6) & 0x3F));
    put(0x80 | (code_point & 0x3F));
  } else {
    put(0xF0 | (code_point >> 18));
    put(0x80 | ((code_point >> 12) & 0x3F));
    put(0x80 | ((code_point >> 6) & 0x3F));
    put(0x80 | (code_point & 0x3F));
  }
}

}  // namespace lmtrain
