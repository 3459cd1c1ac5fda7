// make_json_tokenizer of tokenizer_model.h: a tokenizer.json with the files beside it.
#include <nlohmann/json.hpp>
#include <optional>

#include "base/error.h"
#include "base/text.h"
#include "tokenizer/settings_file.h"
#include "tokenizer/tokenizer_model.h"
#include "tokenizer/tokenizer_pipeline.h"

namespace lmtrain {
namespace {

using Json = nlohmann::ordered_json;

class JsonTokenizer : public TokenizerModel {
 public:
  JsonTokenizer(const std::vector<TokenizerFile>& files, const std::string& origin)
      : tokenizer_(read_tokenizer_json(files.front().bytes, origin)) {
    settings_ = read_settings_file(files, "tokenizer_config.json", origin);
    const Json map = read_settings_file(files, "special_tokens_map.json", origin);
    const auto id_of = [&](const char* key) -> int32_t {
      const Json& source = settings_.contains(key) ? settings_ : map;
      const std::optional<std::string> token = token_named(source, key);
      if (!token) return -1;
      const int32_t id = tokenizer_.id_of(*token);
      if (id < 0) {
        throw Error(ErrorKind::kData,
                    str(origin, " has no token ", quote(*token), ", which is \"", key, "\" in ",
                        &source == &map ? "special_tokens_map.json" : "tokenizer_config.json",
                        " beside it: the files do not belong together; give them as they came"));
      }
      return id;
    };
    ids_ = {id_of("bos_token"), id_of("eos_token"), id_of("unk_token"), id_of("pad_token")};
    const auto is_said = [&](const char* key) {
      return settings_.contains(key) || map.contains(key);
    };
    // Without such files the post-processor tells.
    if (ids_.bos < 0 && !is_said("bos_token") && !tokenizer_.first_ids().empty())
      ids_.bos = tokenizer_.first_ids().front();
    if (ids_.eos < 0 && !is_said("eos_token") && !tokenizer_.last_ids().empty())
      ids_.eos = tokenizer_.last_ids().back();
  }

  int64_t vocab_size() const override { return tokenizer_.vocab_size(); }
  SpecialIds special_ids() const override { return ids_; }
  bool adds_bos() const override {
    if (ids_.bos < 0) return false;
    const auto found = settings_.find("add_bos_token");
    return (found != settings_.end() && *found == true) ||
           (!tokenizer_.first_ids().empty() && tokenizer_.first_ids().front() == ids_.bos);
  }
  std::vector<int32_t> encode(std::string_view text) const override {
    return tokenizer_.encode(text);
  }
  std::string decode(const std::vector<int32_t>& ids) const override {
    return tokenizer_.decode(ids);
  }
  std::vector<uint32_t> piece_bytes() const override { return tokenizer_.piece_bytes(); }
  std::vector<int32_t> space_in_bytes() const override { return tokenizer_.space_in_bytes(); }
  bool is_in_run(int32_t id) const override { return tokenizer_.is_in_run(id); }
  const std::string& why_slow() const override { return why_slow_; }

  std::string hf_tokenizer_config(bool /*add_bos*/, int64_t model_max_length) const override {
    nlohmann::ordered_json config;
    config["tokenizer_class"] = "PreTrainedTokenizerFast";
    const auto add_token = [&](const char* key, int32_t id) {
      if (id >= 0) config[key] = tokenizer_.piece(id);
    };
    add_token("bos_token", ids_.bos);
    add_token("eos_token", ids_.eos);
    add_token("unk_token", ids_.unk);
    add_token("pad_token", ids_.pad);
    config["clean_up_tokenization_spaces"] = false;
    config["model_max_length"] = model_max_length;
    return config.dump(2) + "\n";
  }

 private:
  TokenizerPipeline tokenizer_;
  Json settings_;  // tokenizer_config.json
  SpecialIds ids_;
  std::string why_slow_;
};

}  // namespace

bool is_tokenizer_json(std::string_view bytes) {
  const size_t first = bytes.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos || bytes[first] != '{') return false;
  // A file that is cut short is one too: these keys stand near its beginning.
  return bytes.find("\"added_tokens\"") != std::string_view::npos ||
         (bytes.find("\"model\"") != std::string_view::npos &&
          bytes.find("\"vocab\"") != std::string_view::npos);
}

std::unique_ptr<TokenizerModel> make_json_tokenizer(const std::vector<TokenizerFile>& files,
                                                    const std::string& origin) {
  return std::make_unique<JsonTokenizer>(files, origin);
}

}  // namespace lmtrain
