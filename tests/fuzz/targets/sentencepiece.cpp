// A sentencepiece model. What is accepted encodes and decodes any text.
#include "fuzz/tokenizing.h"
#include "tokenizer/model_check.h"
#include "tokenizer/other_file.h"

namespace lmtrain::fuzzing {

LMTRAIN_FUZZ_TARGET(sentencepiece) {
  (void)other_than_sentencepiece(input);
  (void)table_problem(input);
  if (is_tokenizer_json(input)) return;  // another target's
  accepts([&] {
    const Tokenizer tokenizer(std::string(input), "tokenizer.model");
    check_tokenizer(tokenizer, std::string(input.substr(0, 64)));
  });
}

}  // namespace lmtrain::fuzzing
