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

nlohmann::json shallow_json(std::string_view text) {
  constexpr int kMaxDepth = 64;  // a value is written out recursively
  bool is_too_deep = false;
  auto json = nlohmann::json::parse(
      text,
      [&](int depth, nlohmann::json::parse_event_t, nlohmann::json&) {
        is_too_deep = is_too_deep || depth > kMaxDepth;
        return !is_too_deep;
      },
      /*allow_exceptions=*/false, /*ignore_comments=*/true);
  return is_too_deep ? nlohmann::json(nlohmann::json::value_t::discarded) : json;
}

Seal seal_of(std::string_view text) {
  nlohmann::json json = shallow_json(text);
  if (!json.is_object() || !json.contains(kDigestKey)) return Seal::kNone;
  const nlohmann::json digest = json[kDigestKey];
  json.erase(kDigestKey);
  return digest == digest_of(json) ? Seal::kGood : Seal::kBroken;
}

}  // namespace lmtrain
