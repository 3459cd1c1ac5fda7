// The config.json of a run holds its own checksum: the key "digest" is a hash of all other keys and
// values. The file and its checksum are one file, so they are replaced together, and every reader
// of JSON still reads it.
//
// The document without "digest" is written with sorted keys and no whitespace, by nlohmann's
// dump(). Its digest is Hasher().add(that text).digest().hex() (base/hash.h). So another order of
// keys, other whitespace and comments change nothing, and every other change shows.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace lmtrain {

inline constexpr const char* kDigestKey = "digest";

// Returns `config`, which must be an object, as indented text with its digest as the last key. A
// digest that it has already is replaced.
std::string sealed_text(nlohmann::ordered_json config);

// Parses the document, its digest included, and does not check the digest. Returns a discarded
// value where the text is no JSON, or is nested deeper than 64 levels. Comments are allowed.
nlohmann::json sealed_json(std::string_view text);

// kGood: the digest fits. kBroken: it does not. kNone: the text has none, or is no JSON object.
enum class Seal { kNone, kGood, kBroken };
Seal seal_of(std::string_view text);

}  // namespace lmtrain
