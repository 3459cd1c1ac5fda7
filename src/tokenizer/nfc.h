// Normalization Form C of Unicode (UAX #15), by utf8proc; text that is in it already, as most is,
// is passed through. Characters that came after Unicode 9 are left as they are, as by Hugging
// Face's `tokenizers`.
#pragma once

#include <string>
#include <string_view>

namespace lmtrain {

// Returns `text`, which is valid UTF-8, in NFC. The result views `text` itself or `buffer`, whose
// content is replaced; `text` must not lie in `buffer`.
std::string_view to_nfc(std::string_view text, std::string& buffer);

}  // namespace lmtrain
