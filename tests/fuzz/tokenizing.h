// Both kinds of tokenizers keep these rules for any text.
#pragma once

#include <string>
#include <vector>

#include "fuzz/target.h"
#include "tokenizer/text_stream.h"
#include "tokenizer/tokenizer.h"

namespace lmtrain::fuzzing {

inline void check_tokenizer(const Tokenizer& tokenizer, const std::string& own_text) {
  const int64_t size = tokenizer.vocab_size();
  for (const int32_t id :
       {tokenizer.bos_id(), tokenizer.eos_id(), tokenizer.unk_id(), tokenizer.pad_id()})
    require(id >= -1 && id < size, "a special id outside the vocabulary");
  require(static_cast<int64_t>(tokenizer.piece_bytes().size()) == size, "a piece without its size");
  accepts([&] { (void)tokenizer.hf_tokenizer_config(true, 64); });
  const std::vector<std::string> texts = {"",
                                          "Hello, world 123",
                                          "  \n\t two  spaces \xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80",
                                          "\xFF\xFE bad \xC3",
                                          std::string("a\0b", 3),
                                          own_text};
  for (const std::string& text : texts) {
    std::vector<int32_t> ids;
    if (!accepts([&] { ids = tokenizer.encode(text); })) continue;
    for (const int32_t id : ids) require(id >= 0 && id < size, "an id outside the vocabulary");
    const std::string decoded = tokenizer.decode(ids);
    require(continued_text(tokenizer, {}, ids) == decoded, "a stream gives another text");
  }
}

}  // namespace lmtrain::fuzzing
