#include "config/digest.h"

#include <nlohmann/json.hpp>

#include "base/hash.h"

namespace lmtrain {
namespace {

// The digest of a document that is without it.
std::string digest_of(const nlohmann::json& sorted) {
  return Hasher().add(sorted.dump()).digest().hex();
}

}  // namespace

std::string sealed_text(nlohmann::ordered_json config) {
  config.erase(kDigestKey);
  const std::string plain = config.dump();
  config[kDigestKey] = digest_of(nlohmann::json::parse(plain));
  return config.dump(2) + "\n";
}

Seal seal_of(std::string_view text) {
  auto json = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false,
                                    /*ignore_comments=*/true);
  if (!json.is_object() || !json.contains(kDigestKey)) return Seal::kNone;
  const nlohmann::json digest = json[kDigestKey];
  json.erase(kDigestKey);
  return digest == digest_of(json) ? Seal::kGood : Seal::kBroken;
}

}  // namespace lmtrain
