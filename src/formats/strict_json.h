// Small control files (manifest.json, model.safetensors.index.json, a line of metrics.jsonl) are
// read as strict JSON. Errors are here what nlohmann allows: a key twice in one object, a byte
// order mark, a NUL that ends the text early, and nesting without limit (its values are destroyed
// recursively).
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "base/error.h"

namespace lmtrain {

struct JsonSource {
  ErrorKind kind = ErrorKind::kData;  // the kind of Error that is thrown
  std::string origin{};               // names the file in messages
  std::string advice{};               // says in messages what to do
  int max_depth = 16;                 // levels of objects and arrays below the outermost
};

// Returns the value of `text`. Throws an Error of kind `source.kind` unless it is one JSON value
// that keeps these rules; the message begins with `source.origin` and ends with `source.advice`.
nlohmann::json parse_strict_json(std::string_view text, const JsonSource& source);

}  // namespace lmtrain
