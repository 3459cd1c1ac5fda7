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
// Returns the JSON object in the file `name` of `files`; an empty object without that file. Throws
// Error(kData) that names the file if its bytes are no JSON object.
nlohmann::ordered_json read_settings_file(const std::vector<TokenizerFile>& files,
                                          std::string_view name, const std::string& origin);
// Returns the text of a token: a string, or the member "content" of an object; else nothing.
std::optional<std::string> token_text(const nlohmann::ordered_json& token);
// Returns token_text() of the value of `key`; nothing if the key is missing.
std::optional<std::string> token_named(const nlohmann::ordered_json& settings, const char* key);

}  // namespace lmtrain
