// Reads vocabulary and merges of a tokenizer.json without a JSON value for each string.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/byte_bpe.h"
#include "tokenizer/string_ids.h"

namespace lmtrain {

struct ScannedVocabulary {
  std::vector<std::string> pieces;  // by id; "" for an id without a token
  StringIds ids;                    // of the tokens, by text
  std::vector<BpeModel::Merge> merges;
  std::string rest;  // the file, with {} for /model/vocab and [] for /model/merges
};

// Returns nothing if vocabulary or merges are missing or unusual; the caller must then read and
// check the whole file as JSON. Does not check the rest of the file.
std::optional<ScannedVocabulary> scan_vocabulary(std::string_view bytes);

}  // namespace lmtrain
