// The few fields of sentencepiece's ModelProto that its interface does not tell. The file format is
// protobuf (developers.google.com/protocol-buffers/docs/encoding), the numbers are those of
// sentencepiece_model.proto.
#pragma once

#include <string_view>

namespace lmtrain {

// Whether the model is of type unigram (TrainerSpec.model_type; also when the field is absent).
bool is_unigram_model(std::string_view model);

}  // namespace lmtrain
