#include "tokenizer/nfc.h"

#include <utf8proc.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <memory>
#include <new>

#include "base/utf8.h"

namespace lmtrain {
namespace {

// Characters that NFC leaves as they are, whatever stands before them: none is changed by itself,
// is a combining mark, or is the second half of a composition. Most text has no others.
bool is_stable(char32_t c) {
  return c < 0x300 || (c >= 0x400 && c < 0x483) || (c >= 0x2010 && c < 0x20D0) ||
         (c >= 0x2100 && c < 0x2126) || (c >= 0x2190 && c < 0x2329) ||
         (c >= 0x232B && c < 0x2ADC) || (c >= 0x3000 && c < 0x302A) ||
         (c >= 0x3030 && c < 0x3099) || (c >= 0x309B && c < 0xA66F) ||
         (c >= 0xAC00 && c < 0xD7A4) || (c >= 0xFF00 && c < 0xFFFE) ||
         (c >= 0x1F000 && c < 0x20000) || (c >= 0x20000 && c < 0x2F800);
}

struct Range {
  char32_t first;
  char32_t last;
};
// Characters that came after Unicode 9 and that reordering or composition would change. Hugging
// Face's `tokenizers` 0.23 normalises by Unicode 9, where they are not assigned, and so leaves them
// where they are.
constexpr Range kAfterUnicode9[] = {
    {0x7FD, 0x7FD},     {0x898, 0x89F},     {0x8CA, 0x8D3},     {0x9FE, 0x9FE},
    {0xC3C, 0xC3C},     {0xD3B, 0xD3C},     {0xEBA, 0xEBA},     {0xECE, 0xECE},
    {0x1715, 0x1715},   {0x1ABF, 0x1ACE},   {0x1DF6, 0x1DFA},   {0xA82C, 0xA82C},
    {0x10D24, 0x10D27}, {0x10EAB, 0x10EAC}, {0x10EFD, 0x10EFF}, {0x10F46, 0x10F50},
    {0x10F82, 0x10F85}, {0x11070, 0x11070}, {0x1133B, 0x1133B}, {0x1145E, 0x1145E},
    {0x11839, 0x1183A}, {0x11938, 0x11938}, {0x1193D, 0x1193E}, {0x11943, 0x11943},
    {0x119E0, 0x119E0}, {0x11A34, 0x11A34}, {0x11A47, 0x11A47}, {0x11A99, 0x11A99},
    {0x11D42, 0x11D42}, {0x11D44, 0x11D45}, {0x11D97, 0x11D97}, {0x11F41, 0x11F42},
    {0x16FF0, 0x16FF1}, {0x1E08F, 0x1E08F}, {0x1E130, 0x1E136}, {0x1E2AE, 0x1E2AE},
    {0x1E2EC, 0x1E2EF}, {0x1E4EC, 0x1E4EF}};

bool is_after_unicode9(char32_t c) {
  if (c < kAfterUnicode9[0].first) return false;
  const auto* found =
      std::lower_bound(std::begin(kAfterUnicode9), std::end(kAfterUnicode9), c,
                       [](const Range& range, char32_t value) { return range.last < value; });
  return found != std::end(kAfterUnicode9) && found->first <= c;
}

struct Free {
  void operator()(utf8proc_uint8_t* pointer) const { std::free(pointer); }
};

void append_nfc(std::string_view text, std::string& out) {
  utf8proc_uint8_t* result = nullptr;
  const utf8proc_ssize_t size =
      utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                   static_cast<utf8proc_ssize_t>(text.size()), &result,
                   static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE));
  const std::unique_ptr<utf8proc_uint8_t, Free> owned(result);
  if (size < 0) throw std::bad_alloc();  // the text is valid: nothing else can fail
  out.append(reinterpret_cast<const char*>(result), static_cast<size_t>(size));
}

// Advances `at` over characters that NFC leaves alone, or over those that it may change. Returns
// where the text begins that may be changed by what follows: at the last character passed over,
// or behind it if that is never composed.
size_t skip(std::string_view text, size_t& at, bool is_left_alone) {
  size_t last = at;
  while (at < text.size()) {
    uint64_t word = 0;
    if (is_left_alone && text.size() - at >= sizeof word) {
      // Most text is ASCII: eight bytes at a time.
      std::memcpy(&word, text.data() + at, sizeof word);
      if ((word & 0x8080808080808080ULL) == 0) {
        at += sizeof word;
        last = at - 1;
        continue;
      }
    }
    char32_t c = static_cast<unsigned char>(text[at]);
    const size_t size = c < 0x80 ? 1 : decode_utf8(text.substr(at), c);
    const bool is_newer = !is_stable(c) && is_after_unicode9(c);
    if ((is_stable(c) || is_newer) != is_left_alone) break;
    last = is_newer ? at + size : at;
    at += size;
  }
  return last;
}

}  // namespace

std::string_view to_nfc(std::string_view text, std::string& buffer) {
  size_t at = 0;
  size_t last = skip(text, at, /*is_left_alone=*/true);
  if (at == text.size()) return text;
  buffer.clear();
  size_t done = 0;
  while (at < text.size()) {
    // The stable character in front may be composed with what follows; one behind begins anew.
    buffer += text.substr(done, last - done);
    skip(text, at, /*is_left_alone=*/false);
    append_nfc(text.substr(last, at - last), buffer);
    done = at;
    last = skip(text, at, /*is_left_alone=*/true);
  }
  buffer += text.substr(done);
  return buffer;
}

}  // namespace lmtrain
