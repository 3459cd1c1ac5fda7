#include "report/html.h"

#include <bit>
#include <cstring>
#include <nlohmann/json.hpp>

#include "base/text.h"

namespace lmtrain {

static_assert(std::endian::native == std::endian::little);  // base64_floats copies the bytes

std::string escape_html(std::string_view text) {
  std::string escaped;
  for_each_character(text, [&](char32_t c, std::string_view bytes) {
    if (c == '&') {
      escaped += "&amp;";
    } else if (c == '<') {
      escaped += "&lt;";
    } else if (c == '>') {
      escaped += "&gt;";
    } else if (c == '"') {
      escaped += "&quot;";
    } else if (c == '\'') {
      escaped += "&#39;";
    } else if (shown(bytes, /*keeps_lines=*/true) != bytes) {
      // A control character, or one that turns the direction of text.
      append_utf8(escaped, kReplacementCharacter);
    } else {
      escaped += bytes;
    }
  });
  return escaped;
}

std::string json_for_script(const nlohmann::ordered_json& json) {
  // Outside strings JSON has none of the three characters.
  std::string escaped;
  for (const char c : json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace)) {
    if (c == '<') {
      escaped += "\\u003c";
    } else if (c == '>') {
      escaped += "\\u003e";
    } else if (c == '&') {
      escaped += "\\u0026";
    } else {
      escaped += c;
    }
  }
  return escaped;
}

std::string base64_floats(std::span<const float> values) {
  constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string bytes(values.size_bytes(), '\0');
  if (!values.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
  std::string text;
  text.reserve((bytes.size() + 2) / 3 * 4);
  for (size_t i = 0; i < bytes.size(); i += 3) {
    uint32_t group = 0;
    for (size_t j = i; j < i + 3; ++j)
      group = group << 8U | (j < bytes.size() ? static_cast<unsigned char>(bytes[j]) : 0U);
    for (size_t j = 0; j < 4; ++j)
      text += i + j <= bytes.size() ? kDigits[group >> (18 - 6 * j) & 63U] : '=';
  }
  return text;
}

}  // namespace lmtrain
