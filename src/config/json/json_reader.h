// Strict JSON with // and /* */ comments, read into a tree whose every value knows where it stands.
//
// Owned here because nlohmann's parser keeps neither lines nor duplicate keys, and turns 1e999 into
// infinity. Errors never throw: they are returned as finished lines. Nesting is capped, text must
// be UTF-8, numbers keep the spelling they were written in.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lmtrain {

struct JsonMember;

struct JsonNode {
  enum class Type { kNull, kBool, kNumber, kString, kArray, kObject };
  Type type = Type::kNull;
  std::string where;  // "run.json:12", or "--set key=value"
  std::string text;   // a number as written, or a string's value
  bool boolean = false;
  double number = 0;               // infinite when the number written does not fit
  std::optional<int64_t> integer;  // of a number without fraction that fits: 5, 5.0, 5e0
  std::vector<JsonNode> items;
  std::vector<JsonMember> members;

  bool is(Type other) const { return type == other; }
  // The value of the first member with this key; null where there is none, or this is no object.
  JsonNode* find(std::string_view key);
  const JsonNode* find(std::string_view key) const;
};

struct JsonMember {
  std::string key;
  std::string key_where;  // of the key; the value may stand on a later line
  JsonNode value;
};

struct JsonReadResult {
  std::optional<JsonNode> root;       // none after a syntax error
  std::vector<std::string> problems;  // duplicate keys, then the syntax error if there is one
};

// Values of a file: `where` is "origin:line".
JsonReadResult read_json_file_text(std::string_view text, const std::string& origin);
// Values typed on a command line: `where` is `label` throughout.
JsonReadResult read_json_argument(std::string_view text, const std::string& label);

// The value as compact JSON for a message, cut to 80 bytes between characters.
std::string quote_json(const JsonNode& node);
nlohmann::ordered_json to_json(const JsonNode& node);
// The text with its control characters as JSON escapes, so that a message stays on its line.
std::string printable(std::string_view text);
// One component of a JSON pointer (RFC 6901), printable: ~ and / escaped.
std::string pointer_component(std::string_view key);

}  // namespace lmtrain
