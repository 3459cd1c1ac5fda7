#include "formats/strict_json.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <nlohmann/json.hpp>
#include <set>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/examine.h"
#include "base/file.h"
#include "base/foreign_text.h"
#include "base/hash.h"
#include "base/text.h"
#include "base/utf8.h"

namespace lmtrain {
namespace {

using nlohmann::json;

[[noreturn]] void fail(const JsonSource& source, const std::string& what) {
  throw Error(source.kind, str(source.origin, ": ", what, "; ", source.advice));
}

// Python's json writes NaN and Infinity, which JSON does not have. nlohmann stops inside such a
// word.
std::string python_number(std::string_view text, size_t at) {
  constexpr size_t kLongest = 9;
  const size_t begin = at - std::min(at, kLongest);
  const std::string_view around = text.substr(begin, 2 * kLongest);
  for (const char* word : {"NaN", "Infinity"}) {
    if (around.find(word) != std::string_view::npos)
      return str(": ", word, " is Python's and no number of JSON, write null");
  }
  return {};
}

// Checks depth and keys. json::parse with a callback would do the same in a time that grows with
// the square of the members of an object.
class Checker : public json::json_sax_t {
 public:
  explicit Checker(const JsonSource& source) : source_(source) {}

  bool start_object(size_t) override { return open(); }
  bool start_array(size_t) override { return open(); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }
  bool key(std::string& key) override {
    if (keys_.back().insert(key).second) return true;
    fail(source_, str("the key ", quote(key), " stands twice in one object"));
  }
  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(int64_t) override { return true; }
  bool number_unsigned(uint64_t) override { return true; }
  bool number_float(double, const std::string&) override { return true; }
  bool string(std::string&) override { return true; }
  bool binary(json::binary_t&) override { return true; }
  // json::parse finds it again, and throws.
  bool parse_error(size_t, const std::string&, const json::exception&) override { return false; }

 private:
  bool open() {
    if (std::ssize(keys_) > source_.max_depth)
      fail(source_, str("nested deeper than ", source_.max_depth, " levels"));
    keys_.emplace_back();
    return true;
  }
  bool close() {
    keys_.pop_back();
    return true;
  }

  const JsonSource& source_;
  std::vector<std::set<std::string>> keys_;  // of the objects that are open
};

}  // namespace

json parse_strict_json(std::string_view text, const JsonSource& source) {
  if (const std::string other = foreign_text(text); !other.empty())
    throw Error(source.kind, str(source.origin, ": is ", other));
  if (const size_t nul = text.find('\0'); nul != std::string_view::npos) {
    fail(source, str("not JSON: byte ", nul, " is zero"));
  }
  if (text.starts_with(kByteOrderMark)) fail(source, "not JSON: it begins with a byte order mark");

  Checker checker(source);
  json::sax_parse(text.begin(), text.end(), &checker);
  try {
    return json::parse(text.begin(), text.end());
  } catch (const json::parse_error& error) {
    const std::string other = foreign_data(text.substr(0, kForeignHeadBytes));
    if (!other.empty()) throw Error(source.kind, str(source.origin, ": is ", other));
    // nlohmann counts from 1.
    const size_t at = std::max<size_t>(error.byte, 1) - 1;
    fail(source, str("not JSON at byte ", at, python_number(text, at)));
  } catch (const json::exception&) {
    fail(source, "not JSON: a number is too large");
  }
}

namespace {

constexpr const char* kField = "checksum";

std::string checksum_of(const json& fields) {
  const std::string canonical = fields.dump();
  return crc_to_text(crc32c(0, canonical.data(), canonical.size()));
}

}  // namespace

std::string crc_to_text(uint32_t crc) {
  std::array<char, 9> digits{};
  std::snprintf(digits.data(), digits.size(), "%08x", crc);
  return digits.data();
}

std::string checked_json_text(json fields, int indent) {
  fields[kField] = checksum_of(fields);
  return fields.dump(indent) + "\n";
}

void take_checksum(json& fields, const JsonSource& source) {
  const auto found = fields.find(kField);
  if (found == fields.end()) fail(source, "the field \"checksum\" is missing");
  if (!found->is_string()) fail(source, "checksum is no string");
  const std::string stored = found->get<std::string>();
  fields.erase(found);
  if (const std::string actual = checksum_of(fields); actual != stored)
    fail(source, str("its own checksum is ", actual, ", but it says ", quote(stored)));
}

json parse_checked_json(std::string_view text, const JsonSource& source) {
  json fields = parse_strict_json(text, source);
  if (!fields.is_object()) fail(source, "is no JSON object");
  take_checksum(fields, source);
  return fields;
}

json read_checked_json(const std::filesystem::path& path, uint64_t most,
                       const std::string& advice) {
  const std::string cause = "it is damaged, or of an earlier version";
  const JsonSource source{.origin = shown(path),
                          .advice = advice.empty() ? cause : str(cause, "; ", advice)};
  std::string text;
  read_chunks(
      path, [&](std::string_view chunk) { text += chunk; }, most + 1);
  if (text.size() > most) fail(source, str("has more than ", most, " bytes"));
  return parse_checked_json(text, source);
}

nlohmann::ordered_json finite_or_null(double value) {
  return std::isfinite(value) ? nlohmann::ordered_json(value) : nlohmann::ordered_json(nullptr);
}

nlohmann::ordered_json finite_or_null(const std::optional<double>& value) {
  return value ? finite_or_null(*value) : nlohmann::ordered_json(nullptr);
}

using Visit = std::function<void(const nlohmann::json& line, uint64_t end)>;

void for_each_json_line(const std::filesystem::path& path, const Visit& visit) {
  for_each_json_line_with(path, "", visit);
}

void for_each_json_line_with(const std::filesystem::path& path, std::string_view text,
                             const Visit& visit) {
  if (!is_there(path)) return;
  const MappedFile file(path);
  std::string_view rest = file.bytes();
  while (!rest.empty()) {
    // Much faster than find() where the first byte of the text is everywhere.
    const void* match = ::memmem(rest.data(), rest.size(), text.data(), text.size());
    if (match == nullptr) return;
    const auto found = static_cast<size_t>(static_cast<const char*>(match) - rest.data());
    const size_t newline = rest.find('\n', found);
    if (newline == std::string_view::npos) return;
    const size_t begin = rest.substr(0, found).rfind('\n') + 1;  // 0 without a newline
    const std::string_view line_text = rest.substr(begin, newline - begin);
    rest.remove_prefix(newline + 1);
    nlohmann::json line;
    try {
      line = parse_strict_json(line_text, {});
    } catch (const Error&) {
      continue;
    }
    if (line.is_object()) visit(line, file.bytes().size() - rest.size());
  }
}

std::optional<double> number_at(const nlohmann::json& line, const char* key) {
  const auto found = line.find(key);
  if (found == line.end() || !found->is_number()) return std::nullopt;
  return found->get<double>();
}

}  // namespace lmtrain
