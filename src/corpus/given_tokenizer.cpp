#include "corpus/given_tokenizer.h"

#include "base/error.h"
#include "base/files/absolute_path.h"
#include "base/files/examine.h"
#include "base/text.h"

namespace lmtrain {

namespace fs = std::filesystem;

fs::path given_tokenizer_path(const Config& config) {
  fs::path path = absolute_path(*config.tokenizer.model);
  if (is_there(path)) return path;
  throw Error(ErrorKind::kUsage,
              str("/tokenizer/model: ", shown(path),
                  " does not exist; give a sentencepiece .model file or a tokenizer.json",
                  config.data.format == DataFormat::kTokens ? "" : ", or null to train one"));
}

}  // namespace lmtrain
