#include "tokenizer/tokenizer_json_model.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/text.h"
#include "tokenizer/byte_alphabet.h"
#include "tokenizer/text_steps.h"

namespace lmtrain {
namespace {

StringIds read_vocabulary(const JsonPlace& place, TokenizerJson& result) {
  if (!place.value().is_object()) place.fail("is not an object of tokens and ids");
  if (place.value().empty()) place.fail("is empty");
  StringIds ids;
  for (const auto& [token, value] : place.value().items()) {
    const bool is_id =
        value.is_number_unsigned() && value.get<uint64_t>() <= static_cast<uint64_t>(kMostTokenId);
    if (!is_id) place.member(token).fail(str("is not an integer from 0 to ", kMostTokenId));
    if (token.empty()) place.fail("has an empty token");
    const auto id = value.get<size_t>();
    if (result.pieces.size() <= id) result.pieces.resize(id + 1);
    if (!result.pieces[id].empty())
      place.member(token).fail(str("is ", id, ", which ", quote(result.pieces[id]), " has too"));
    result.pieces[id] = token;
    ids.add(token, static_cast<int32_t>(id));
  }
  return ids;
}

int32_t id_of(const JsonPlace& merges, size_t index, const std::string& token,
              const StringIds& ids) {
  const int32_t id = ids.find(token);
  if (id == StringIds::kNone)
    merges.element(index).fail(
        str("needs the token ", quote(token), ", which is not in /model/vocab"));
  return id;
}

void read_merges(const JsonPlace& place, const StringIds& ids, BpeModel& model) {
  const size_t count = place.array_size();
  model.merges.reserve(count);
  for (size_t i = 0; i < count; ++i) {
    const nlohmann::json& value = place.value()[i];
    std::string left;
    std::string right;
    if (value.is_string()) {
      const auto& text = value.get_ref<const std::string&>();
      if (text.starts_with("#version")) continue;
      const size_t space = text.find(' ');
      if (space == std::string::npos || text.find(' ', space + 1) != std::string::npos)
        place.element(i).fail(str("is ", quote(text), ", not two tokens with a space between"));
      left = text.substr(0, space);
      right = text.substr(space + 1);
    } else if (value.is_array() && value.size() == 2 && value[0].is_string() &&
               value[1].is_string()) {
      left = value[0].get<std::string>();
      right = value[1].get<std::string>();
    } else {
      place.element(i).fail("is neither a string nor a pair of strings");
    }
    const int32_t left_id = id_of(place, i, left, ids);
    const int32_t right_id = id_of(place, i, right, ids);
    model.merges.push_back({left_id, right_id, id_of(place, i, left + right, ids)});
  }
}

// Returns whether text can hold the byte; a malformed byte is read as U+FFFD. Vocabularies that
// were trained without an alphabet, as GPT-NeoX's, have no token for the other bytes.
bool is_in_utf8(unsigned byte) { return byte != 0xC0 && byte != 0xC1 && byte < 0xF5; }

void fail_with_missing(const JsonPlace& model, const std::vector<unsigned char>& missing,
                       const std::string& first) {
  constexpr size_t kMostNamed = 8;
  std::vector<std::string> names;
  for (size_t i = 0; i < std::min(missing.size(), kMostNamed); ++i)
    names.push_back(std::to_string(missing[i]));
  model.member("vocab").fail(
      str("has no token ", quote(first), " for the byte ", join(names, ", "),
          missing.size() > kMostNamed ? str(" and ", missing.size() - kMostNamed, " more") : "",
          ", and /model/unk_token is no token: such bytes would be lost"));
}

// Bytes without a token would be lost, as the library loses them, unless unk_token stands for them.
void check_bytes(const JsonPlace& model, const StringIds& ids, TokenizerJson& result) {
  const JsonPlace unk = model.member("unk_token");
  if (!unk.is_null()) {
    if (const int32_t id = ids.find(unk.text()); id != StringIds::kNone) result.model.unk_id = id;
  }
  if (result.model.unk_id) return;
  if (!result.is_byte_level && !result.model.byte_fallback) {
    model.fail(
        "has no byte_fallback and no unk_token, and /pre_tokenizer has no ByteLevel: characters "
        "without a token would be lost");
  }
  std::vector<unsigned char> missing;
  const auto token_of = result.is_byte_level ? token_of_byte : fallback_token;
  for (unsigned byte = 0; byte < 256; ++byte) {
    if (is_in_utf8(byte) && !ids.contains(token_of(static_cast<unsigned char>(byte))))
      missing.push_back(static_cast<unsigned char>(byte));
  }
  if (!missing.empty()) fail_with_missing(model, missing, token_of(missing.front()));
}

}  // namespace

StringIds read_bpe_model(const JsonPlace& model, ScannedVocabulary* scanned,
                         TokenizerJson& result) {
  if (model.is_null()) model.fail("is missing");
  if (const JsonPlace type = model.member("type"); !type.is_null() && type.text() != "BPE") {
    type.fail(str("is ", quote(type.text()), ", which is not supported (BPE is)"));
  }
  model.require_object({"type", "dropout", "unk_token", "continuing_subword_prefix",
                        "end_of_word_suffix", "fuse_unk", "byte_fallback", "ignore_merges", "vocab",
                        "merges"});
  for (const char* key : {"continuing_subword_prefix", "end_of_word_suffix"}) {
    const JsonPlace affix = model.member(key);
    if (!affix.is_null() && !affix.text().empty())
      affix.fail(str("is ", quote(affix.text()), ", which is not supported (null is)"));
  }
  if (const JsonPlace dropout = model.member("dropout");
      !dropout.is_null() && dropout.value() != 0) {
    dropout.fail("drops merges at random, which is not supported (null is)");
  }
  const JsonPlace fallback = model.member("byte_fallback");
  result.model.byte_fallback = fallback.boolean_or(false);
  if (result.model.byte_fallback && result.is_byte_level)
    fallback.fail("is true, and /pre_tokenizer has ByteLevel, which spells bytes in another way");
  result.model.fuses_unk = model.member("fuse_unk").boolean_or(false);
  result.model.ignores_merges = model.member("ignore_merges").boolean_or(false);
  StringIds ids;
  if (scanned == nullptr) {
    ids = read_vocabulary(model.member("vocab"), result);
    read_merges(model.member("merges"), ids, result.model);
  } else {
    ids = std::move(scanned->ids);
    result.pieces = std::move(scanned->pieces);
    result.model.merges = std::move(scanned->merges);
  }
  check_bytes(model, ids, result);
  result.model.tokens.reserve(result.pieces.size());
  for (const std::string& piece : result.pieces) {
    std::optional<std::string>& token = result.model.tokens.emplace_back();
    if (!piece.empty()) token = result.is_byte_level ? bytes_of_token(piece) : piece;
  }
  return ids;
}

}  // namespace lmtrain
