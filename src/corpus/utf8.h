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

bool is_valid_utf8(std::string_view text);

}  // namespace lmtrain
