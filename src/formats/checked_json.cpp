#include "formats/checked_json.h"

#include <array>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "base/hash.h"
#include "base/text.h"
#include "formats/quote.h"

namespace lmtrain {
namespace {

using nlohmann::json;

constexpr const char* kField = "checksum";

[[noreturn]] void fail(const JsonSource& source, const std::string& what) {
  throw Error(source.kind, str(source.origin, ": ", what, "; ", source.advice));
}

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

json read_checked_json(const std::filesystem::path& path, uint64_t most) {
  const JsonSource source{.origin = shown(path),
                          .advice = "it is damaged, or of an earlier version"};
  std::string text;
  read_pieces(
      path, [&](std::string_view piece) { text += piece; }, most + 1);
  if (text.size() > most) fail(source, str("has more than ", most, " bytes"));
  return parse_checked_json(text, source);
}

}  // namespace lmtrain
