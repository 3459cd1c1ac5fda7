#include "tokenizer/settings_file.h"

#include <filesystem>

#include "base/error.h"
#include "base/text.h"
#include "formats/strict_json.h"

namespace lmtrain {

std::string path_beside(const std::string& origin, std::string_view name) {
  return (std::filesystem::path(origin).parent_path() / name).string();
}

nlohmann::ordered_json read_settings_file(const std::vector<TokenizerFile>& files,
                                          std::string_view name, const std::string& origin) {
  for (const TokenizerFile& file : files) {
    if (file.name != name) continue;
    const std::string path = path_beside(origin, name);
    const auto value = parse_strict_json(
        file.bytes, {ErrorKind::kData, path,
                     "the file is damaged or cut short: get it again from where it came", 32});
    if (!value.is_object()) {
      throw Error(ErrorKind::kData, str(path,
                                        ": is no JSON object; get it again from where it "
                                        "came, or remove it"));
    }
    return nlohmann::ordered_json::parse(file.bytes);
  }
  return nlohmann::ordered_json::object();
}

std::optional<std::string> token_text(const nlohmann::ordered_json& token) {
  const nlohmann::ordered_json& value =
      token.is_object() && token.contains("content") ? token["content"] : token;
  if (!value.is_string()) return std::nullopt;
  return value.get<std::string>();
}

std::optional<std::string> token_named(const nlohmann::ordered_json& settings, const char* key) {
  const auto found = settings.find(key);
  return found == settings.end() ? std::nullopt : token_text(*found);
}

}  // namespace lmtrain
