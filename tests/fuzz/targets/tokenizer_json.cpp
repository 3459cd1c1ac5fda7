// tokenizer.json, then tokenizer_config.json and special_tokens_map.json, then a text; parted by
// lines "%%".
#include "fuzz/tokenizing.h"

namespace lmtrain::fuzzing {

LMTRAIN_FUZZ_TARGET(tokenizer_json) {
  const std::vector<std::string> parts = parts_of(input, 4);
  std::vector<TokenizerFile> files = {{"tokenizer.json", parts[0]}};
  if (!parts[1].empty()) files.push_back({"tokenizer_config.json", parts[1]});
  if (!parts[2].empty()) files.push_back({"special_tokens_map.json", parts[2]});
  accepts([&] {
    const Tokenizer tokenizer(files, "tokenizer.json");
    check_tokenizer(tokenizer, parts[3]);
  });
}

}  // namespace lmtrain::fuzzing
