#include "eval/model_text.h"

#include "base/error.h"

namespace lmtrain {

int32_t ModelText::prefix_id() const {
  if (tokenizer.bos_id() >= 0) return tokenizer.bos_id();
  if (tokenizer.eos_id() >= 0) return tokenizer.eos_id();
  throw Error(ErrorKind::kData,
              "the tokenizer has neither BOS nor EOS, from which the first token of a text could "
              "be predicted; give another one with --tokenizer");
}

std::vector<int32_t> ModelText::encode(std::string_view text) const {
  std::vector<int32_t> ids = tokenizer.encode(text);
  const bool has_bos = !ids.empty() && ids.front() == tokenizer.bos_id();
  if (add_bos && tokenizer.bos_id() >= 0 && !has_bos) ids.insert(ids.begin(), tokenizer.bos_id());
  return ids;
}

}  // namespace lmtrain
