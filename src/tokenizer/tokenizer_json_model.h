// The part "model" of a tokenizer.json: vocabulary and merges of BPE.
#pragma once

#include "tokenizer/json_place.h"
#include "tokenizer/string_ids.h"
#include "tokenizer/tokenizer_json.h"
#include "tokenizer/vocabulary_scanner.h"

namespace lmtrain {

// Fills result.pieces and result.model from the value of /model, and returns the ids of the pieces.
// Vocabulary and merges are those of `scanned`, where it is not null, and are then taken from it.
// Requires result.is_byte_level.
// Throws Error(kData) for a model that is not supported or contradicts itself.
StringIds read_bpe_model(const JsonPlace& model, ScannedVocabulary* scanned, TokenizerJson& result);

}  // namespace lmtrain
