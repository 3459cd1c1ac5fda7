#include "base/variables.h"

#include <cstdlib>

#include "base/utf8.h"

namespace lmtrain {

ReplacedVariables replace_variables(std::string_view text) {
  ReplacedVariables result;
  while (true) {
    const size_t open = text.find("${");
    result.text += text.substr(0, open);
    if (open == std::string_view::npos) return result;
    const size_t close = text.find('}', open);
    if (close == std::string_view::npos) {
      result.text += text.substr(open);
      result.is_closed = false;
      return result;
    }
    const std::string name(text.substr(open + 2, close - open - 2));
    const char* value = std::getenv(name.c_str());
    if (value == nullptr) {
      result.unset = name;
      return result;
    }
    if (!result.not_utf8 && !is_utf8(value)) result.not_utf8 = name;
    result.text += value;
    text.remove_prefix(close + 1);
  }
}

}  // namespace lmtrain
