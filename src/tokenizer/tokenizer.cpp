#include "tokenizer/tokenizer.h"

#include <mutex>
#include <optional>

#include "base/error.h"
#include "base/examine.h"
#include "base/file.h"
#include "base/text.h"

namespace lmtrain {

namespace fs = std::filesystem;

namespace {

std::vector<TokenizerFile> one_file(std::string bytes) {
  const std::string_view name =
      is_tokenizer_json(bytes) ? Tokenizer::kTokenizerJson : Tokenizer::kSentencePieceModel;
  return {{std::string(name), std::move(bytes)}};
}

}  // namespace

Tokenizer::Tokenizer(std::string model, const std::string& origin)
    : Tokenizer(one_file(std::move(model)), origin) {}

Tokenizer::Tokenizer(std::vector<TokenizerFile> files, const std::string& origin)
    : files_(std::move(files)), origin_(origin) {
  if (is_json()) {
    model_ = make_json_tokenizer(files_, origin);
  } else {
    model_ = make_sentencepiece_tokenizer(files_, origin);
  }
  ids_ = model_->special_ids();
}

// A command opens its tokenizer at several places, and 100,000 entries take a tenth of a second. So
// the last one is kept, for files that have the same bytes.
Tokenizer Tokenizer::load(const fs::path& path) {
  static std::mutex mutex;
  static std::vector<TokenizerFile> last_files;  // as they were read; a tokenizer keeps fewer
  static std::optional<Tokenizer> last;
  std::vector<TokenizerFile> files = read_files(path);
  const std::lock_guard lock(mutex);
  if (!last || last->origin_ != path.string() || last_files != files) {
    last.reset();
    last.emplace(Tokenizer(files, path.string()));
    last_files = std::move(files);
  }
  return *last;
}

std::vector<TokenizerFile> Tokenizer::read_files(const fs::path& path) {
  if (is_folder(path)) {
    throw Error(ErrorKind::kUsage, str("tokenizer ", path.string(),
                                       " is a folder; give the .model file or the tokenizer.json "
                                       "in it"));
  }
  std::vector<TokenizerFile> files = one_file(read_file(path));
  std::vector<std::string_view> names = {kTokenizerConfig, "special_tokens_map.json"};
  if (files.front().name == kSentencePieceModel) names.push_back("added_tokens.json");
  for (const std::string_view name : names) {
    const fs::path file = path.parent_path() / name;
    if (is_there(file)) files.push_back({std::string(name), read_file(file)});
  }
  return files;
}

void Tokenizer::require_special_ids(bool add_bos, bool add_eos) const {
  const auto require = [&](bool wanted, int32_t id, std::string_view name) {
    if (!wanted || id >= 0) return;
    throw Error(
        ErrorKind::kData,
        str(origin_, " has no ", name, " piece", is_json() ? " that the files beside it name" : "",
            "; set tokenizer.add_", name, " to false, or use a model that has one"));
  };
  require(add_bos, bos_id(), "bos");
  require(add_eos, eos_id(), "eos");
}

std::vector<int32_t> Tokenizer::encode_document(std::string_view text, bool add_bos,
                                                bool add_eos) const {
  require_special_ids(add_bos, add_eos);
  std::vector<int32_t> ids = encode(text);
  if (add_bos) ids.insert(ids.begin(), bos_id());
  if (add_eos) ids.push_back(eos_id());
  return ids;
}

std::vector<int32_t> Tokenizer::encode_prompt(std::string_view text, bool add_bos) const {
  std::vector<int32_t> ids = encode_document(text, add_bos, /*add_eos=*/false);
  if (ids.empty()) ids.push_back(std::max(bos_id(), 0));
  return ids;
}

std::string Tokenizer::decode(const std::vector<int32_t>& ids) const {
  for (const int32_t id : ids) {
    if (id >= 0 && id < vocab_size()) continue;
    throw Error(ErrorKind::kInternal,
                str("token ", id, " is outside the tokenizer's vocabulary of ", vocab_size()));
  }
  return model_->decode(ids);
}

}  // namespace lmtrain
