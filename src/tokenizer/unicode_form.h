// The normalization forms of Unicode (UAX #15) and lower case, by utf8proc, as the normalizers of
// Hugging Face's `tokenizers` have them. The forms leave characters that came after Unicode 9 as
// they are; lower case is of Unicode 17, character by character.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace lmtrain {

enum class UnicodeForm : uint8_t { kNfc, kNfd, kNfkc, kNfkd };

// These return `text`, which is valid UTF-8, in the form, or in lower case. The result views `text`
// (where to_form() changes nothing) or `buffer`. `text` must not lie in `buffer`.
std::string_view to_form(UnicodeForm form, std::string_view text, std::string& buffer);
std::string_view to_lower_case(std::string_view text, std::string& buffer);

}  // namespace lmtrain
