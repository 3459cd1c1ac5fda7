// Checks of a sentencepiece model before the library sees it. The library trusts its file: a table
// of normalisation with a wrong offset makes it read beyond memory, a piece that is not UTF-8 fails
// later, far from its cause.
#pragma once

#include <string>
#include <string_view>

#include "corpus/tokenizer/model_proto.h"

namespace lmtrain {

// Says what is wrong with the model, and where; empty for one that is safe to load and to encode
// with. The model is as read_model() gave it, with the bytes it was read from still there.
std::string model_problem(const SentencePieceModel& model);

// The same for a precompiled_charsmap: the size of a trie in bytes, a double array of units
// (github.com/s-yata/darts-clone) from texts to offsets in what follows it, the replacements, each
// ended by a NUL.
std::string table_problem(std::string_view table);

}  // namespace lmtrain
