// The tokens that a folder adds to its sentencepiece model: added_tokens_decoder of
// tokenizer_config.json, else added_tokens.json, and the special tokens that the former or
// special_tokens_map.json names. transformers finds them in a text before sentencepiece sees it.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tokenizer/added_tokens.h"
#include "tokenizer/model_proto.h"
#include "tokenizer/tokenizer_model.h"

namespace lmtrain {

struct AddedPieces {
  // With ids of the model, or those behind them without a hole. Empty: the files add none, and a
  // text that spells a special token is text.
  std::vector<AddedToken> tokens;
  // Each part of a text between added tokens has the dummy prefix (`legacy`), not the first alone.
  bool prefixes_parts = false;
  bool adds_bos = true;  // as add_bos_token says
  SpecialIds special;    // those that the files name; -1 for others
  nlohmann::ordered_json settings = nlohmann::ordered_json::object();  // tokenizer_config.json
};

// Throws Error(kData) that names the file for one that is no JSON object, for an added token whose
// id is not the next one or belongs to another piece, and for BOS or EOS that is no token.
AddedPieces read_added_pieces(const std::vector<TokenizerFile>& files,
                              const std::vector<ModelPiece>& pieces, const std::string& origin);

}  // namespace lmtrain
