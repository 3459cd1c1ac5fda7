// The JSON files beside a tokenizer: tokenizer_config.json, special_tokens_map.json and
// added_tokens.json of transformers.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/tokenizer_model.h"

namespace lmtrain {

// Returns the path of a file beside the tokenizer `origin`.
std::string path_beside(const std::string& origin, std::string_view name);
// Returns the object in the file of that name; an empty one where there is none. Throws
// Error(kData) that names the file for one that is no JSON object.
nlohmann::ordered_json read_settings_file(const std::vector<TokenizerFile>& files,
                                          std::string_view name, const std::string& origin);
// Returns the text of a token, which is a string or an object with "content"; nothing for any other
// value.
std::optional<std::string> token_text(const nlohmann::ordered_json& token);
// Returns the text of the token that a key names; nothing where the key is missing or null.
std::optional<std::string> token_named(const nlohmann::ordered_json& settings, const char* key);

}  // namespace lmtrain
