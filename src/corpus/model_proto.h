// sentencepiece's model file: a protobuf message ModelProto
// (developers.google.com/protocol-buffers/docs/encoding; field numbers of
// sentencepiece_model.proto). Written here for the vocabularies that we train; read for what the
// library's interface does not tell.
#pragma once

#include <string>
#include <string_view>

#include "corpus/bpe_trainer.h"

namespace lmtrain {

// A BPE model: <unk> <s> </s>, the 256 bytes if `byte_fallback`, merges, characters; identity
// normalisation, no dummy prefix, all whitespace kept.
std::string bpe_model(const BpePieces& pieces, bool byte_fallback, double coverage);

// Whether a model is of type unigram (TrainerSpec.model_type; also when the field is absent).
bool is_unigram_model(std::string_view model);

}  // namespace lmtrain
