#include "tokenizer/added_pieces.h"

#include <map>
#include <optional>
#include <unordered_map>

#include "base/error.h"
#include "base/text.h"
#include "tokenizer/settings_file.h"

namespace lmtrain {
namespace {

using Json = nlohmann::ordered_json;

class AddedPiecesReader {
 public:
  AddedPiecesReader(const std::vector<TokenizerFile>& files, const std::vector<ModelPiece>& pieces,
                    const std::string& origin)
      : pieces_(pieces),
        origin_(origin),
        settings_(read_settings_file(files, "tokenizer_config.json", origin)),
        map_(read_settings_file(files, "special_tokens_map.json", origin)),
        added_(read_settings_file(files, "added_tokens.json", origin)) {
    for (size_t id = 0; id < pieces.size(); ++id)
      ids_.emplace(pieces[id].text, static_cast<int32_t>(id));
  }

  AddedPieces read() {
    AddedPieces result;
    result.adds_bos = settings_.value("add_bos_token", Json()) != false;
    result.prefixes_parts = settings_.value("legacy", Json()) == true;
    read_decoder();
    if (tokens_.empty()) read_added_tokens();
    if (!tokens_.empty()) {
      read_special_tokens();
      check_ids();
      result.special = {special_id("bos_token"), special_id("eos_token"), special_id("unk_token"),
                        special_id("pad_token")};
      const bool splits_special = settings_.value("split_special_tokens", Json()) == true;
      for (auto& [id, token] : tokens_) {
        // find() skips an empty token; such a token is still decoded.
        if (token.special && splits_special) token.content.clear();
        result.tokens.push_back(token);
      }
    }
    result.settings = std::move(settings_);
    return result;
  }

 private:
  [[noreturn]] void fail(std::string_view file, std::string_view problem) const {
    throw Error(ErrorKind::kData,
                str(path_beside(origin_, file), ": ", problem,
                    "; give the tokenizer's files as they came, or the .model file in a folder of "
                    "its own to train without added tokens"));
  }

  void add(AddedToken token, std::string_view file) {
    if (token.content.empty()) fail(file, str("the added token ", token.id, " is empty"));
    const auto known = ids_.find(token.content);
    if (known != ids_.end() && known->second != token.id)
      fail(file, str("the added token ", quote(token.content), " has the id ", token.id,
                     ", and another token of that text has ", known->second));
    if (static_cast<size_t>(token.id) < pieces_.size() &&
        pieces_[static_cast<size_t>(token.id)].text != token.content)
      fail(file, str("the added token ", quote(token.content), " has the id ", token.id,
                     ", which is the piece ", quote(pieces_[static_cast<size_t>(token.id)].text),
                     " of ", origin_));
    if (const auto same = tokens_.find(token.id); same != tokens_.end())
      fail(file, str("the id ", token.id, " is that of ", quote(same->second.content), " and of ",
                     quote(token.content)));
    ids_.emplace(token.content, token.id);
    tokens_.emplace(token.id, std::move(token));
  }

  static bool flag(const Json& token, const char* key, bool absent) {
    const auto found = token.find(key);
    return found != token.end() && found->is_boolean() ? found->get<bool>() : absent;
  }

  void read_decoder() {
    constexpr std::string_view kFile = "tokenizer_config.json";
    const auto found = settings_.find("added_tokens_decoder");
    if (found == settings_.end() || found->is_null()) return;
    if (!found->is_object()) fail(kFile, "added_tokens_decoder is no object");
    for (const auto& [key, value] : found->items()) {
      const std::optional<int32_t> id = id_in(key);
      if (!id || !value.is_object() || !value.value("content", Json()).is_string())
        fail(kFile, str("added_tokens_decoder/", key, " is not an id with a token"));
      AddedToken token;
      token.content = value["content"].get<std::string>();
      token.id = *id;
      token.single_word = flag(value, "single_word", false);
      token.lstrip = flag(value, "lstrip", false);
      token.rstrip = flag(value, "rstrip", false);
      token.special = flag(value, "special", false);
      token.normalized = flag(value, "normalized", !token.special);
      add(std::move(token), kFile);
    }
  }

  void read_added_tokens() {
    constexpr std::string_view kFile = "added_tokens.json";
    for (const auto& [content, value] : added_.items()) {
      if (!value.is_number_unsigned() || value.get<uint64_t>() > kMostAddedId)
        fail(kFile, str(quote(content), " has no id"));
      AddedToken token;
      token.content = content;
      token.id = value.get<int32_t>();
      add(std::move(token), kFile);
    }
  }

  void make_special(const std::string& name, int32_t id) {
    const auto [token, is_new] = tokens_.try_emplace(id);
    token->second.special = true;
    if (!is_new) return;
    token->second.content = name;
    token->second.id = id;
    token->second.normalized = false;
  }

  // A special token that the lists above do not have is one of the model's pieces.
  void read_special_tokens() {
    std::vector<std::string> names;
    for (const Json* source : {&settings_, &map_}) {
      for (const char* key : {"bos_token", "eos_token", "unk_token", "sep_token", "pad_token",
                              "cls_token", "mask_token"}) {
        if (const auto name = token_named(*source, key)) names.push_back(*name);
      }
      for (const char* key : {"additional_special_tokens", "extra_special_tokens"}) {
        const auto list = source->find(key);
        if (list == source->end() || !list->is_array()) continue;
        for (const Json& entry : *list) {
          if (const auto name = token_text(entry)) names.push_back(*name);
        }
      }
    }
    for (const std::string& name : names) {
      if (const auto found = ids_.find(name); found != ids_.end())
        make_special(name, found->second);
    }
    for (size_t id = 0; id < pieces_.size(); ++id) {
      if (pieces_[id].type == PieceType::kControl)
        make_special(pieces_[id].text, static_cast<int32_t>(id));
    }
  }

  // Refuses a gap in the ids: one of transformers' two tokenizers closes it, the other does not.
  void check_ids() const {
    size_t next = pieces_.size();
    for (const auto& [id, token] : tokens_) {
      if (static_cast<size_t>(id) < pieces_.size()) continue;
      if (static_cast<size_t>(id) != next) {
        fail(
            settings_.contains("added_tokens_decoder") ? "tokenizer_config.json"
                                                       : "added_tokens.json",
            str("the added token ", quote(token.content), " has the id ", id, ", and no token has ",
                next, ": ids must follow those of ", origin_, " without a hole"));
      }
      ++next;
    }
  }

  int32_t special_id(const char* key) const {
    const Json& source = settings_.contains(key) ? settings_ : map_;
    const std::optional<std::string> name = token_named(source, key);
    if (!name) return -1;
    if (const auto found = ids_.find(*name); found != ids_.end()) return found->second;
    if (std::string_view(key) == "pad_token" || std::string_view(key) == "unk_token") return -1;
    fail(&source == &map_ ? "special_tokens_map.json" : "tokenizer_config.json",
         str(key, " is ", quote(*name), ", which is no token"));
  }

  static constexpr uint64_t kMostAddedId = (1 << 22) - 1;

  static std::optional<int32_t> id_in(const std::string& text) {
    if (text.empty() || text.size() > 7 ||
        text.find_first_not_of("0123456789") != std::string::npos)
      return std::nullopt;
    const int id = std::stoi(text);
    if (static_cast<uint64_t>(id) > kMostAddedId) return std::nullopt;
    return id;
  }

  const std::vector<ModelPiece>& pieces_;
  const std::string& origin_;
  Json settings_;
  Json map_;
  Json added_;
  std::unordered_map<std::string, int32_t> ids_;
  std::map<int32_t, AddedToken> tokens_;  // by id
};

}  // namespace

AddedPieces read_added_pieces(const std::vector<TokenizerFile>& files,
                              const std::vector<ModelPiece>& pieces, const std::string& origin) {
  return AddedPiecesReader(files, pieces, origin).read();
}

}  // namespace lmtrain
