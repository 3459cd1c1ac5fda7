// Reads strict JSON with // and /* */ comments into a tree in which every value has its file and
// line.
//
// Nothing is thrown: errors are returned as whole messages. Nesting is limited to 64 levels.
// Strings must be UTF-8, without "\u0000"; bytes in comments are not checked. A byte order mark is
// an error. Numbers keep their spelling.
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
  double number = 0;  // +infinity when out of range, also for -1e999 and 1e-999
  // The value of a whole number: of any int64_t written in digits alone, or up to 2^53 as 5.0 or
  // 5e0.
  std::optional<int64_t> integer;
  std::vector<JsonNode> items;
  std::vector<JsonMember> members;

  bool is(Type other) const { return type == other; }
  // Returns the value of the member with this key; null where there is none, or this is no object.
  JsonNode* find(std::string_view key);
  const JsonNode* find(std::string_view key) const;
};

struct JsonMember {
  std::string key;
  std::string key_where;  // where the key is; the value may be on a later line
  JsonNode value;
};

struct JsonReadResult {
  std::optional<JsonNode> root;  // none after a syntax error
  // Duplicate keys, then the syntax error if any. Of two equal keys the tree has the first.
  std::vector<std::string> problems;  // messages
};

// Reads the text of a file; `where` of each value is "origin:line".
JsonReadResult read_json_file_text(std::string_view text, const std::string& origin);
// Reads a value typed on a command line, by the same rules; `where` of each value is `label`.
JsonReadResult read_json_argument(std::string_view text, const std::string& label);

// Returns the value as compact JSON for a message, cut to 80 bytes between characters.
std::string quote_json(const JsonNode& node);
// Returns the value as nlohmann's JSON, with members in their order. A number outside the range of
// doubles becomes infinity, which dump() writes as null.
nlohmann::ordered_json to_json(const JsonNode& node);
// Returns the text with characters below U+0020 as JSON escapes, so that a message stays on one
// line.
std::string printable(std::string_view text);
// Returns the key as one component of a JSON pointer (RFC 6901), with ~ and / escaped, and
// printable.
std::string pointer_component(std::string_view key);

}  // namespace lmtrain
