// The config.json of a run holds its own checksum: the key "digest" is a hash of all other keys and
// values. The digest lies in the file, so both are replaced together.
//
// The document without "digest" is written with sorted keys and no whitespace, by nlohmann's
// dump(). Its digest is Hasher().add(that text).digest().hex() (base/hash.h). So the order of keys,
// whitespace and comments do not change the digest, and every other change does.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace lmtrain {

inline constexpr const char* kDigestKey = "digest";

// Returns `config`, which must be an object, as indented text with its digest as the last key.
// Replaces a digest that it has already. Throws nlohmann's type_error for text that is not UTF-8.
std::string sealed_text(nlohmann::ordered_json config);

// Parses a document of JSON, which may have comments. Returns a discarded value (is_discarded())
// where the text is no JSON, or nested deeper than 64 levels: values are copied recursively. Of a
// config it does not check the digest.
nlohmann::json shallow_json(std::string_view text);

// kGood: the digest fits. kBroken: it does not fit. kNone: there is no digest, or no JSON object.
enum class Seal { kNone, kGood, kBroken };
Seal seal_of(std::string_view text);

}  // namespace lmtrain
