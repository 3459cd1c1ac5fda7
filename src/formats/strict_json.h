// Reads small control files as strict JSON: manifest.json, model.safetensors.index.json, a line of
// metrics.jsonl. These are errors here, though nlohmann allows them: a key twice in one object, a
// byte order mark, a NUL that ends the text early, and deep nesting (nlohmann destroys values
// recursively).
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "base/error.h"
#include "base/text.h"

namespace lmtrain {

struct JsonSource {
  ErrorKind kind = ErrorKind::kData;  // the kind of Error that is thrown
  std::string origin{};               // names the file in messages
  std::string advice{};               // says in messages what to do
  int max_depth = 16;                 // levels of objects and arrays below the outermost
};

// Returns the value of `text`. Throws an Error of kind `source.kind` unless `text` is one JSON
// value that keeps these rules. The message begins with `source.origin` and ends with
// `source.advice`, or with the advice of foreign_text.h for a pointer, a web page and the like.
nlohmann::json parse_strict_json(std::string_view text, const JsonSource& source);

// Numbers between C++ and JSON. JSON has no infinity and no NaN: a number that is not finite, or
// not there, is written as null. An integer is read only from a whole number in its range.
nlohmann::ordered_json finite_or_null(double value);
nlohmann::ordered_json finite_or_null(const std::optional<double>& value);

// Throws Json::type_error for a value that is no integer, such as 1.5 and 1e300, or out of the
// range of T. (Json::get<T>() converts any number; out of range that is undefined.)
template <class T, class Json>
T integer_in(const Json& json) {
  static_assert(std::is_integral_v<T> && !std::is_same_v<T, bool>);
  if (json.is_number_unsigned()) {
    const auto value = json.template get<uint64_t>();
    if (std::in_range<T>(value)) return static_cast<T>(value);
  } else if (json.is_number_integer()) {
    const auto value = json.template get<int64_t>();
    if (std::in_range<T>(value)) return static_cast<T>(value);
  }
  throw Json::type_error::create(302,
                                 str("must be an integer in range, but is ",
                                     json.is_number() ? json.dump() : json.type_name()),
                                 &json);
}

// The JSON files that lmtrain writes for itself hold their own checksum in the field "checksum" of
// the object. It is the CRC-32C, as eight hex digits, of the canonical text of the other fields:
// keys in byte order, no spaces. So a flipped bit, a cut or a digit changed by hand is noticed.

std::string crc_to_text(uint32_t crc);  // eight hex digits

// Returns the text of the object `fields`, which has no field "checksum", with that field added and
// a newline at the end. `indent` goes to nlohmann::json::dump. Throws nlohmann::json::type_error
// for a string that is not UTF-8.
std::string checked_json_text(nlohmann::json fields, int indent = 2);

// Removes "checksum" from the object and compares it with the other fields. Throws an Error of kind
// `source.kind` when the checksum is missing or wrong.
void take_checksum(nlohmann::json& fields, const JsonSource& source);

// Returns the fields, without "checksum", of text that checked_json_text wrote. Throws an Error of
// kind `source.kind` for any other text.
nlohmann::json parse_checked_json(std::string_view text, const JsonSource& source);
// Does the same for a file of at most `most` bytes. Throws Error(kData) that names the file and
// ends with `advice`, and Error(kIo).
nlohmann::json read_checked_json(const std::filesystem::path& path, uint64_t most,
                                 const std::string& advice = "");

// These functions read JSON-lines files that only grow (metrics.jsonl, events.jsonl). They skip a
// line without its newline, since a killed process may leave a torn line at the end, and each line
// that is no object of strict JSON.

// Calls `visit(line, end)` for every line in order; `end` is the byte offset after its newline. A
// missing file has no lines. Throws Error(kIo), and Error(kData) where the path is no regular file.
void for_each_json_line(const std::filesystem::path& path,
                        const std::function<void(const nlohmann::json& line, uint64_t end)>& visit);

// Does the same, but parses only lines that contain `text`, such as "\"eval_loss\"": in a file of
// gigabytes few lines may be wanted. `text` has no newline.
void for_each_json_line_with(
    const std::filesystem::path& path, std::string_view text,
    const std::function<void(const nlohmann::json& line, uint64_t end)>& visit);

// Returns the number at this key of a line; nothing where the key is missing or holds no number.
std::optional<double> number_at(const nlohmann::json& line, const char* key);

}  // namespace lmtrain
