// UTF-8, checked byte by byte (Unicode 15, table 3-7): no overlong forms, no surrogates.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace lmtrain {

// The length of the well-formed sequence that begins at `at`, or 0.
size_t utf8_length(std::string_view text, size_t at);
bool is_utf8(std::string_view text);
// Requires a code point: below 0x110000, no surrogate.
void append_utf8(std::string& out, uint32_t code);

}  // namespace lmtrain
