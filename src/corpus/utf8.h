// Unicode as bytes: where characters begin and whether text is valid UTF-8 (RFC 3629: no
// surrogates, no overlong forms, nothing above U+10FFFF).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace lmtrain {

// Size in bytes of the valid character that begins at text[0], or 0 when there is none. Stores its
// code point.
size_t decode_utf8(std::string_view text, char32_t& code_point);

// How many bytes of the text are valid characters before the first that is not.
size_t valid_utf8_prefix(std::string_view text);
inline bool is_valid_utf8(std::string_view text) { return valid_utf8_prefix(text) == text.size(); }

}  // namespace lmtrain
