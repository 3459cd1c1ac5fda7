// The part "model" of a tokenizer.json: vocabulary and merges of BPE.
#pragma once

#include "tokenizer/json_place.h"
#include "tokenizer/string_ids.h"
#include "tokenizer/tokenizer_json.h"
#include "tokenizer/vocabulary_scanner.h"

namespace lmtrain {

// Fills result.pieces and result.model from the value of /model. Returns the ids of the tokens, by
// text. If `scanned` is not null, moves vocabulary and merges out of it. result.is_byte_level must
// be set. Throws Error(kData) for a model that is not supported or contradicts itself.
StringIds read_bpe_model(const JsonPlace& model, ScannedVocabulary* scanned, TokenizerJson& result);

}  // namespace lmtrain
