// A path in a config may hold ${NAME}: the value of the environment variable NAME stands there.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace lmtrain {

struct ReplacedVariables {
  std::string text;                  // each ${NAME} replaced by the environment variable
  std::optional<std::string> unset;  // the first variable that is not set; `text` ends before it
  std::optional<std::string>
      not_utf8;           // the first variable whose value is not UTF-8; `text` holds the value
  bool is_closed = true;  // false: a "${" has no "}"; `text` has it as it stands
};
// Replaces every ${NAME} of `text`, from left to right, up to the first variable that is not set. A
// "$" without "{" stays. A ${NAME} inside a value stays. Throws nothing.
ReplacedVariables replace_variables(std::string_view text);

}  // namespace lmtrain
