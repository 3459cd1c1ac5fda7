// JSON of a small control file (manifest.json, model.safetensors.index.json, a line of
// metrics.jsonl) without the liberties nlohmann takes: a key twice in one object, a byte order
// mark, a NUL that ends the text early, and nesting without bound (its values are destroyed
// recursively) are all errors.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "base/error.h"

namespace lmtrain {

struct JsonSource {
  ErrorKind kind = ErrorKind::kData;  // of the Error that is thrown
  std::string origin{};               // names the file in messages
  std::string advice{};               // what to do about it
  int max_depth = 16;                 // of objects and arrays that hold an object or array
};

// The value that `text` states. An Error of kind `source.kind` for anything but one JSON value that
// keeps these rules; the message begins with `source.origin` and ends with `source.advice`.
nlohmann::json parse_strict_json(std::string_view text, const JsonSource& source);

}  // namespace lmtrain
