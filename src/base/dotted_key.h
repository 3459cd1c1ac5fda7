// People write the key of a value inside nested objects with dots, "a.b.c". Settings have such
// keys, and so has the field of a JSON document that holds its text (data.text_field).
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace lmtrain {

// Returns the parts of a dotted key: {"a", "b", "c"} for "a.b.c". A part may be empty: "a..b" gives
// {"a", "", "b"}, and "" gives {""}.
inline std::vector<std::string> key_parts(std::string_view key) {
  std::vector<std::string> parts(1);
  for (const char c : key) {
    if (c == '.') {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  return parts;
}

}  // namespace lmtrain
