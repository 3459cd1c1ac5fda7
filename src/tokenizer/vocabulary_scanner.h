// Takes vocabulary and merges, which are nearly all of a tokenizer.json, out of its bytes, so that
// no JSON value is made for each of their strings.
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
  StringIds ids;                    // of the pieces
  std::vector<ByteBpeModel::Merge> merges;
  std::string rest;  // the file, with {} for /model/vocab and [] for /model/merges
};

// Returns nothing for a file in which either is missing or has anything unusual: the caller then
// reads the whole file, and says what is wrong. Of the rest of the file nothing is checked.
std::optional<ScannedVocabulary> scan_vocabulary(std::string_view bytes);

}  // namespace lmtrain
