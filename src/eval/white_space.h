// White space at the ends of text, as Python's str.strip() and str.rstrip() see it: the space, tabs
// and line breaks, the separators U+001C to U+001F, U+0085, and the spaces of Unicode. The prompts
// of lm-eval and of DCLM CORE are defined by these two functions.
#pragma once

#include <string_view>

namespace lmtrain {

// Both take UTF-8 and return a view into `text`: without white space at its end, or at both ends.
std::string_view without_space_behind(std::string_view text);
std::string_view without_space_around(std::string_view text);

}  // namespace lmtrain
