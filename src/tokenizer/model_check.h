// Checks a sentencepiece model before the library sees it. The library trusts its file: a table of
// normalisation with a wrong offset makes it read beyond memory, and a piece that is not UTF-8
// fails later, far from its cause.
#pragma once

#include <string>
#include <string_view>

#include "tokenizer/model_proto.h"

namespace lmtrain {

// Returns what is wrong with the model, and where; empty if the model is safe to load and to encode
// with. The bytes that read_model() read must still exist.
std::string model_problem(const SentencePieceModel& model);

// Returns the same for the bytes of a precompiled_charsmap. These are the size of a trie in bytes,
// the trie, and replacements that each end in a NUL. The trie is a double array of units
// (github.com/s-yata/darts-clone) that leads from texts to offsets in the replacements.
std::string table_problem(std::string_view table);

}  // namespace lmtrain
