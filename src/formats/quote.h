// quote() prepares a name from an untrusted file for a message: it is put in quotes, control
// characters become "?", and it is cut after 120 bytes (a safetensors header may hold names of
// megabytes). It is not called `quoted`: overload resolution would silently prefer std::quoted.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace lmtrain {

inline std::string quote(std::string_view name) {
  constexpr size_t kLongest = 120;
  std::string text = "\"";
  for (const char c : name.substr(0, kLongest)) {
    text += static_cast<unsigned char>(c) < 0x20 || c == 0x7F ? '?' : c;
  }
  if (name.size() > kLongest) text += "...";
  return text + '"';
}

}  // namespace lmtrain
