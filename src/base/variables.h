// ${NAME} in paths as people type them.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace lmtrain {

struct ReplacedVariables {
  std::string text;                     // each ${NAME} replaced by the environment variable
  std::optional<std::string> unset;     // the first that is not set; the text ends before it
  std::optional<std::string> not_utf8;  // the first before that whose value is not UTF-8
  bool is_closed = true;                // no "${" without "}", which would stand as it is
};
ReplacedVariables replace_variables(std::string_view text);

}  // namespace lmtrain
