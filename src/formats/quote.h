// quote() prepares a name from an untrusted file for a message: it is put in quotes, spelled by
// shown() of text.h, and cut after 120 bytes (a safetensors header may hold names of megabytes). It
// is not called `quoted`: overload resolution would silently prefer std::quoted.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>

#include "base/text.h"
#include "base/utf8.h"

namespace lmtrain {

inline std::string quote(std::string_view name) {
  constexpr size_t kLongest = 120;
  size_t size = std::min(kLongest, name.size());
  // No character is cut.
  while (size < name.size() && size > 0 && is_utf8_continuation(name[size])) --size;
  return '"' + shown(name.substr(0, size)) + (size < name.size() ? "...\"" : "\"");
}

}  // namespace lmtrain
