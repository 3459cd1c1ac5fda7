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

struct ModelTraits {
  bool is_unigram = false;
  // Text may be cut before a space that follows something else, and the parts encoded one by one,
  // with the same ids: BPE, no normalisation that reaches across, and no piece with a space after
  // something else (a merge is always a piece).
  bool splits_before_spaces = false;
};
// Of a model that sentencepiece has loaded.
ModelTraits read_model_traits(std::string_view model);

}  // namespace lmtrain
