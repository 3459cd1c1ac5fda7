// The checksum inside the config.json of a run: its key "digest" holds a hash of all other keys and
// values. The file and its checksum are one file, so they are replaced together, and every reader
// of JSON still reads it.
//
// The hash is MurmurHash3 (128 bits) of the document without "digest", keys sorted, as nlohmann's
// dump() writes it without whitespace. So another order of keys, other whitespace and comments
// change nothing, and every other change shows.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace lmtrain {

inline constexpr const char* kDigestKey = "digest";

// `config` as indented text that ends with its digest.
std::string sealed_text(nlohmann::ordered_json config);

// The document with its digest; a discarded value where the text is no JSON, or is nested deeper
// than configs may be. Comments are passed over.
nlohmann::json sealed_json(std::string_view text);

// kNone: JSON without a digest, or no JSON object at all.
enum class Seal { kNone, kGood, kBroken };
Seal seal_of(std::string_view text);

}  // namespace lmtrain
