#include "tokenizer/unicode_form.h"

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
bool is_stable_in_nfc(char32_t c) {
  return c < 0x300 || (c >= 0x400 && c < 0x483) || (c >= 0x2010 && c < 0x20D0) ||
         (c >= 0x2100 && c < 0x2126) || (c >= 0x2190 && c < 0x2329) ||
         (c >= 0x232B && c < 0x2ADC) || (c >= 0x3000 && c < 0x302A) ||
         (c >= 0x3030 && c < 0x3099) || (c >= 0x309B && c < 0xA66F) ||
         (c >= 0xAC00 && c < 0xD7A4) || (c >= 0xFF00 && c < 0xFFFE) ||
         (c >= 0x1F000 && c < 0x20000) || (c >= 0x20000 && c < 0x2F800);
}

// Whether the form leaves a character as it is in any text. For forms other than NFC only the most
// frequent such characters are listed.
bool is_stable(UnicodeForm form, char32_t c) {
  if (form == UnicodeForm::kNfc) return is_stable_in_nfc(c);
  return c < 0xA0 || (c >= 0x430 && c < 0x439) || (c >= 0x43A && c < 0x450) ||
         (c >= 0x4E00 && c < 0xA000);
}

struct Range {
  char32_t first;
  char32_t last;
};
// Characters that came after Unicode 9 and that a form would change, reorder or compose. Hugging
// Face's `tokenizers` 0.23 normalises by Unicode 9, where they are not assigned, and so leaves them
// where they are.
constexpr Range kAfterUnicode9[] = {
    {0x7FD, 0x7FD},     {0x898, 0x89F},     {0x8CA, 0x8D3},     {0x9FE, 0x9FE},
    {0xC3C, 0xC3C},     {0xD3B, 0xD3C},     {0xEBA, 0xEBA},     {0xECE, 0xECE},
    {0x1715, 0x1715},   {0x1ABF, 0x1ACE},   {0x1DF6, 0x1DFA},   {0x32FF, 0x32FF},
    {0xA7F2, 0xA7F4},   {0xA82C, 0xA82C},   {0xAB69, 0xAB69},   {0x10781, 0x10785},
    {0x10787, 0x107B0}, {0x107B2, 0x107BA}, {0x10D24, 0x10D27}, {0x10EAB, 0x10EAC},
    {0x10EFD, 0x10EFF}, {0x10F46, 0x10F50}, {0x10F82, 0x10F85}, {0x11070, 0x11070},
    {0x1133B, 0x1133B}, {0x1145E, 0x1145E}, {0x11839, 0x1183A}, {0x11938, 0x11938},
    {0x1193D, 0x1193E}, {0x11943, 0x11943}, {0x119E0, 0x119E0}, {0x11A34, 0x11A34},
    {0x11A47, 0x11A47}, {0x11A99, 0x11A99}, {0x11D42, 0x11D42}, {0x11D44, 0x11D45},
    {0x11D97, 0x11D97}, {0x11F41, 0x11F42}, {0x16FF0, 0x16FF1}, {0x1CCD6, 0x1CCF9},
    {0x1E030, 0x1E06D}, {0x1E08F, 0x1E08F}, {0x1E130, 0x1E136}, {0x1E2AE, 0x1E2AE},
    {0x1E2EC, 0x1E2EF}, {0x1E4EC, 0x1E4EF}, {0x1F16C, 0x1F16C}, {0x1FBF0, 0x1FBF9}};

bool is_after_unicode9(char32_t c) {
  if (c < kAfterUnicode9[0].first) return false;
  const auto* found =
      std::lower_bound(std::begin(kAfterUnicode9), std::end(kAfterUnicode9), c,
                       [](const Range& range, char32_t value) { return range.last < value; });
  return found != std::end(kAfterUnicode9) && found->first <= c;
}

utf8proc_option_t options_of(UnicodeForm form) {
  int options = UTF8PROC_STABLE;
  const bool composes = form == UnicodeForm::kNfc || form == UnicodeForm::kNfkc;
  options |= composes ? UTF8PROC_COMPOSE : UTF8PROC_DECOMPOSE;
  if (form == UnicodeForm::kNfkc || form == UnicodeForm::kNfkd) options |= UTF8PROC_COMPAT;
  return static_cast<utf8proc_option_t>(options);
}

struct Free {
  void operator()(utf8proc_uint8_t* pointer) const { std::free(pointer); }
};

void append_in_form(UnicodeForm form, std::string_view text, std::string& out) {
  utf8proc_uint8_t* result = nullptr;
  const utf8proc_ssize_t size =
      utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                   static_cast<utf8proc_ssize_t>(text.size()), &result, options_of(form));
  const std::unique_ptr<utf8proc_uint8_t, Free> owned(result);
  if (size < 0) throw std::bad_alloc();  // the text is valid: nothing else can fail
  out.append(reinterpret_cast<const char*>(result), static_cast<size_t>(size));
}

// Advances `at` over characters that the form leaves alone, or over characters that it may change.
// Returns where the text begins that the next characters may change: at the last character passed,
// or behind it if that is never composed.
size_t skip(UnicodeForm form, std::string_view text, size_t& at, bool is_left_alone) {
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
    const bool is_settled = is_stable(form, c);
    const bool is_newer = !is_settled && is_after_unicode9(c);
    if ((is_settled || is_newer) != is_left_alone) break;
    last = is_newer ? at + size : at;
    at += size;
  }
  return last;
}

// Capital letters of Unicode 16 and 17 whose small letters utf8proc 2.8 does not know: ranges with
// one distance from capital to small.
struct Capitals {
  char32_t first;
  char32_t last;
  int32_t distance;
};
constexpr Capitals kNewerCapitals[] = {{0x1C89, 0x1C89, 1},      {0xA7CB, 0xA7CB, 0x264 - 0xA7CB},
                                       {0xA7CC, 0xA7CC, 1},      {0xA7CE, 0xA7CE, 1},
                                       {0xA7D2, 0xA7D2, 1},      {0xA7D4, 0xA7D4, 1},
                                       {0xA7DA, 0xA7DA, 1},      {0xA7DC, 0xA7DC, 0x19B - 0xA7DC},
                                       {0x10D50, 0x10D65, 0x20}, {0x16EA0, 0x16EB8, 0x1B}};

char32_t lower_case_of(char32_t c) {
  for (const Capitals& capitals : kNewerCapitals) {
    if (c >= capitals.first && c <= capitals.last)
      return static_cast<char32_t>(static_cast<int32_t>(c) + capitals.distance);
  }
  return static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(c)));
}

}  // namespace

std::string_view to_form(UnicodeForm form, std::string_view text, std::string& buffer) {
  size_t at = 0;
  size_t last = skip(form, text, at, /*is_left_alone=*/true);
  if (at == text.size()) return text;
  buffer.clear();
  size_t done = 0;
  while (at < text.size()) {
    // The stable character in front may be composed with what follows; one behind begins anew.
    buffer += text.substr(done, last - done);
    skip(form, text, at, /*is_left_alone=*/false);
    append_in_form(form, text.substr(last, at - last), buffer);
    done = at;
    last = skip(form, text, at, /*is_left_alone=*/true);
  }
  buffer += text.substr(done);
  return buffer;
}

std::string_view to_lower_case(std::string_view text, std::string& buffer) {
  constexpr char32_t kCapitalIWithDot = 0x130;
  buffer.clear();
  buffer.reserve(text.size());
  while (!text.empty()) {
    char32_t c = static_cast<unsigned char>(text.front());
    size_t size = 1;
    if (c < 0x80) {
      buffer += static_cast<char>(c >= 'A' && c <= 'Z' ? c + ('a' - 'A') : c);
    } else {
      size = decode_utf8(text, c);
      if (c == kCapitalIWithDot) {
        buffer += "i\u0307";
      } else {
        append_utf8(buffer, lower_case_of(c));
      }
    }
    text.remove_prefix(size);
  }
  return buffer;
}

}  // namespace lmtrain
