// The JSON files that lmtrain writes for itself hold their own checksum: the field "checksum" of
// the object is the CRC-32C, as eight hex digits, of the other fields in their canonical text (keys
// in byte order, no spaces). So a flipped bit, a cut or a digit changed by hand is noticed.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "formats/strict_json.h"

namespace lmtrain {

std::string crc_to_text(uint32_t crc);  // eight hex digits

// Returns the text of the object `fields` with the field "checksum" added, which it must not have,
// and a newline at the end. `indent` is passed to nlohmann::json::dump. Throws an exception of
// nlohmann::json for a string that is not UTF-8.
std::string checked_json_text(nlohmann::json fields, int indent = 2);

// Removes "checksum" from the object and compares it with the other fields. Throws the Error of
// `source` (strict_json.h) when it is missing or wrong.
void take_checksum(nlohmann::json& fields, const JsonSource& source);

// Returns the fields, without "checksum", of text that checked_json_text wrote; throws the Error of
// `source` for any other text.
nlohmann::json parse_checked_json(std::string_view text, const JsonSource& source);
// Does the same for a file of at most `most` bytes. Throws Error(kData) that names the file, or
// Error(kIo).
nlohmann::json read_checked_json(const std::filesystem::path& path, uint64_t most);

}  // namespace lmtrain
