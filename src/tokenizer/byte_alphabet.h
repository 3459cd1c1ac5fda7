// The alphabet in which byte-level BPE writes bytes (GPT-2's bytes_to_unicode): the printable
// characters of Latin-1 stand for themselves, the other 68 bytes are U+0100 and on, in order.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace lmtrain {

// Returns the bytes that a token spells; nothing if a part of it is no character of the alphabet.
std::optional<std::string> bytes_of_token(std::string_view token);
// Returns the token of one byte.
std::string token_of_byte(unsigned char byte);

}  // namespace lmtrain
