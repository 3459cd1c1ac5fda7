// Text for an HTML page. All that comes from a run (names, paths, settings, reasons) is untrusted
// and goes through these functions.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <string_view>

namespace lmtrain {

// Returns the text for element content and for attributes in double or single quotes: & < > " ' are
// character references, bytes that are no UTF-8 and control characters but tab and newline are
// U+FFFD.
std::string escape_html(std::string_view text);

// Returns JSON for a <script> element: "<", ">" and "&" inside strings are written as \u003c and
// so on, so that no text can end the element. Bytes that are no UTF-8 are U+FFFD.
std::string json_for_script(const nlohmann::ordered_json& json);

// Returns the values as little-endian binary32, in base64.
std::string base64_floats(std::span<const float> values);

}  // namespace lmtrain
