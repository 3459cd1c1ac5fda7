// The name of a set of held-out documents, as data.eval gives it. It is a part of keys:
// "eval_loss/NAME" in metrics.jsonl, "eval/loss/NAME" in TensorBoard. length_N, with a whole number
// N, names a bucket of document lengths there (eval/evaluate.h), and so no set. An object with
// "path" or "weight" is a source.
#pragma once

#include <algorithm>
#include <string_view>

namespace lmtrain {

// This is the same rule as a regular expression of ECMAScript, for the JSON Schema.
inline constexpr const char* kSetNamePattern = "^(?!length_[0-9]+$|path$|weight$)[A-Za-z0-9_.-]+$";
inline constexpr std::string_view kLengthPrefix = "length_";

inline bool is_set_character(char c) {
  return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '_' ||
         c == '-' || c == '.';
}

inline bool is_length_name(std::string_view name) {
  if (!name.starts_with(kLengthPrefix) || name.size() == kLengthPrefix.size()) return false;
  const std::string_view number = name.substr(kLengthPrefix.size());
  return std::all_of(number.begin(), number.end(), [](char c) { return c >= '0' && c <= '9'; });
}

// Returns whether the name is one or more of A-Z, a-z, 0-9, "_", "-" and ".", and none of those
// above.
inline bool is_set_name(std::string_view name) {
  return !name.empty() && std::all_of(name.begin(), name.end(), is_set_character) &&
         !is_length_name(name) && name != "path" && name != "weight";
}

}  // namespace lmtrain
