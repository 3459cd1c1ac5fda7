// Escapes text for an HTML page. All text of a run (names, paths, settings, reasons) is untrusted
// and must go through these functions.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <string_view>

#include "base/utf8.h"

namespace lmtrain {

// Calls f(code point, bytes) for each character. U+FFFD replaces each byte that is not UTF-8.
template <class F>
void for_each_character(std::string_view text, const F& f) {
  const std::string valid = replacing_malformed(text);
  for (std::string_view rest = valid; !rest.empty();) {
    char32_t c = 0;
    const size_t size = decode_utf8(rest, c);
    f(c, rest.substr(0, size));
    rest.remove_prefix(size);
  }
}

// Returns the text for element content and for attributes in double or single quotes: & < > " '
// become character references; invalid UTF-8, and control characters other than tab and newline,
// become U+FFFD.
std::string escape_html(std::string_view text);

// Returns JSON for a <script> element: "<", ">" and "&" inside strings become \u003c and so on, so
// that no text can end the element. Invalid UTF-8 becomes U+FFFD.
std::string json_for_script(const nlohmann::ordered_json& json);

// Returns the values as little-endian binary32, in base64.
std::string base64_floats(std::span<const float> values);

}  // namespace lmtrain
