#include "prepare/given_tokenizer.h"

#include "base/error.h"
#include "base/examine.h"
#include "base/log.h"
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

std::optional<Tokenizer> resolve_document_ends(Config& config) {
  std::optional<bool>& bos = config.tokenizer.add_bos;
  std::optional<bool>& eos = config.tokenizer.add_eos;
  if (bos && eos) return std::nullopt;
  if (!config.tokenizer.model) {
    bos = bos.value_or(true);
    eos = eos.value_or(true);
    return std::nullopt;
  }
  const fs::path path = given_tokenizer_path(config);
  Tokenizer tokenizer = Tokenizer::load(path);
  const auto describe = [](bool is_auto, bool value, std::string_view name, std::string_view why) {
    return str(name, value ? " " : " not ", "added (",
               is_auto ? why : std::string_view("as the config says"), ")");
  };
  const bool auto_bos = !bos;
  const bool auto_eos = !eos;
  bos = bos.value_or(tokenizer.adds_bos());
  eos = eos.value_or(tokenizer.eos_id() >= 0);
  // Token files are trained on as they are.
  if (config.data.format == DataFormat::kTokens) return tokenizer;
  log_note(str("documents  ",
               describe(auto_bos, *bos, "BOS", str("by the files of ", path.string())), ", ",
               describe(auto_eos, *eos, "EOS",
                        *eos ? "every document ends in it" : "the tokenizer has none")));
  if (!*bos && !*eos)
    log_warning(
        str(path.string(),
            ": neither BOS nor EOS stands between documents, so the model cannot tell where "
            "one ends; give a tokenizer that has one of them, and set tokenizer.add_bos or "
            "tokenizer.add_eos to true"));
  return tokenizer;
}

}  // namespace lmtrain
