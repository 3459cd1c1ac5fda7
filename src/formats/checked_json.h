// JSON of a file of our own that carries a checksum of itself: the field "checksum" of the object
// is the CRC-32C, as eight hex digits, of the other fields in their canonical text (keys in byte
// order, no spaces). A bit that flips, a cut or a digit changed by hand is told.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "formats/strict_json.h"

namespace lmtrain {

std::string crc_to_text(uint32_t crc);  // eight hex digits

// The text of the object `fields`, to which it adds "checksum", with a newline at its end. `indent`
// is that of nlohmann::json::dump.
std::string checked_json_text(nlohmann::json fields, int indent = 2);

// Checks "checksum" against the other fields of the object and removes it. The Error of `source`
// (strict_json.h) unless it is there and holds.
void take_checksum(nlohmann::json& fields, const JsonSource& source);

// The fields, without "checksum", of text that checked_json_text wrote; the Error of `source` for
// anything else.
nlohmann::json parse_checked_json(std::string_view text, const JsonSource& source);
// The same from a file of at most `most` bytes. Error(kData) naming it, Error(kIo).
nlohmann::json read_checked_json(const std::filesystem::path& path, uint64_t most);

}  // namespace lmtrain
