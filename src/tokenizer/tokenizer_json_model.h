// The part "model" of a tokenizer.json: vocabulary and merges of BPE.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>

#include "tokenizer/json_place.h"
#include "tokenizer/tokenizer_json.h"

namespace lmtrain {

using TokenIds = std::unordered_map<std::string, int32_t>;

// Fills result.pieces and result.model from the value of /model, and returns the ids of the pieces.
// Requires result.is_byte_level.
// Throws Error(kData) for a model that is not supported or contradicts itself.
TokenIds read_bpe_model(const JsonPlace& model, TokenizerJson& result);

}  // namespace lmtrain
