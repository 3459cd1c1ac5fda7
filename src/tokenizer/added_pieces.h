// The tokens that a folder adds to its sentencepiece model. They are added_tokens_decoder of
// tokenizer_config.json, else added_tokens.json. tokenizer_config.json and special_tokens_map.json
// name the special tokens. transformers finds all of them before sentencepiece sees the text.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tokenizer/added_tokens.h"
#include "tokenizer/model_proto.h"
#include "tokenizer/tokenizer_model.h"

namespace lmtrain {

struct AddedPieces {
  // Their ids are ids of the model, or follow the model's last id without a gap. Empty if the files
  // add no tokens: then text that spells a special token is plain text.
  std::vector<AddedToken> tokens;
  // Whether each part of a text between added tokens gets the dummy prefix, or only the first.
  bool prefixes_parts = false;
  bool adds_bos = true;  // as add_bos_token says
  SpecialIds special;    // -1 for a token that the files do not name
  nlohmann::ordered_json settings = nlohmann::ordered_json::object();  // tokenizer_config.json
};

// Throws Error(kData) that names the file for:
//   a file that is no JSON object
//   an added token that is empty, or whose id or text belongs to another token
//   ids of added tokens that leave a gap
//   BOS or EOS that is no token
AddedPieces read_added_pieces(const std::vector<TokenizerFile>& files,
                              const std::vector<ModelPiece>& pieces, const std::string& origin);

}  // namespace lmtrain
