#include "tokenizer/tokenizer_json.h"

#include <algorithm>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/error.h"
#include "base/text.h"
#include "formats/strict_json.h"
#include "tokenizer/json_place.h"
#include "tokenizer/tokenizer_json_model.h"

namespace lmtrain {
namespace {

using nlohmann::json;

// GPT-2's, which the pre-tokenizer ByteLevel has built in.
constexpr std::string_view kByteLevelRegex =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

const std::string& type_of(const JsonPlace& place) {
  if (!place.value().is_object()) place.fail("is not an object");
  return place.member("type").text();
}

[[noreturn]] void refuse(const JsonPlace& place, std::string_view supported) {
  place.fail(str("is of the type ", quote(type_of(place)), ", which is not supported (", supported,
                 " is)"));
}

// Calls `each` with the parts of a component that may be a Sequence, whose parts lie in `key`.
void for_each_part(const JsonPlace& place, std::string_view key,
                   const std::function<void(const JsonPlace&)>& each) {
  if (place.is_null()) return;
  if (type_of(place) != "Sequence") {
    each(place);
    return;
  }
  place.require_object({"type", key});
  const JsonPlace parts = place.member(key);
  for (size_t i = 0; i < parts.array_size(); ++i) for_each_part(parts.element(i), key, each);
}

void read_normalizer(const JsonPlace& place, TokenizerJson& result) {
  for_each_part(place, "normalizers", [&](const JsonPlace& part) {
    if (type_of(part) != "NFC") refuse(part, "NFC");
    part.require_object({"type"});
    result.normalizes = true;
  });
}

void set_pattern(std::string_view pattern, const JsonPlace& place, PreTokenizerStep& step) {
  step.pattern = pattern;
  step.regex.emplace(pattern, place.name());
}

PreTokenizerStep read_split(const JsonPlace& part) {
  part.require_object({"type", "pattern", "behavior", "invert"});
  const JsonPlace pattern = part.member("pattern").require_object({"Regex", "String"});
  const JsonPlace regex = pattern.member("Regex");
  const JsonPlace text = pattern.member("String");
  if (regex.is_null() == text.is_null()) pattern.fail("has not one of Regex and String");
  PreTokenizerStep step;
  if (!regex.is_null()) {
    set_pattern(regex.text(), regex, step);
  } else {
    std::string escaped;
    for (const char c : text.text()) {
      if (std::string_view("\\^$.[]|()?*+{}-").find(c) != std::string_view::npos) escaped += '\\';
      escaped += c;
    }
    set_pattern(escaped, text, step);
  }
  const JsonPlace behavior = part.member("behavior");
  step.removes = behavior.text() == "Removed";
  if (!step.removes && behavior.text() != "Isolated")
    behavior.fail(
        str("is ", quote(behavior.text()), ", which is not supported (Isolated and Removed are)"));
  step.is_inverted = part.member("invert").boolean_or(false);
  return step;
}

void read_pre_tokenizer(const JsonPlace& place, TokenizerJson& result) {
  bool has_byte_level = false;
  for_each_part(place, "pretokenizers", [&](const JsonPlace& part) {
    if (has_byte_level) part.fail("stands behind ByteLevel, which is not supported");
    const std::string& type = type_of(part);
    PreTokenizerStep step;
    if (type == "ByteLevel") {
      part.require_object({"type", "add_prefix_space", "trim_offsets", "use_regex"});
      has_byte_level = true;
      step.adds_prefix_space = part.member("add_prefix_space").boolean_or(true);
      if (part.member("use_regex").boolean_or(true)) set_pattern(kByteLevelRegex, part, step);
    } else if (type == "Split") {
      step = read_split(part);
    } else if (type == "Digits") {
      part.require_object({"type", "individual_digits"});
      const bool each = part.member("individual_digits").boolean_or(false);
      set_pattern(each ? "\\p{N}" : "\\p{N}+", part, step);
    } else {
      refuse(part, "ByteLevel, Split, Digits or a Sequence of them");
    }
    result.steps.push_back(std::move(step));
  });
  if (!has_byte_level) place.fail("has no ByteLevel: only byte-level BPE is supported");
}

// The id of a special token of a template.
std::vector<int32_t> ids_of_special(const JsonPlace& specials, const std::string& name,
                                    const TokenizerJson& result) {
  const JsonPlace special = specials.member(name);
  if (special.is_null()) specials.fail(str("does not have ", quote(name), " of the template"));
  const JsonPlace ids = special.member("ids");
  std::vector<int32_t> found;
  for (size_t i = 0; i < ids.array_size(); ++i) {
    const int32_t id = ids.element(i).integer(kMostTokenId);
    if (static_cast<size_t>(id) >= result.pieces.size()) ids.fail("has an id without a token");
    found.push_back(id);
  }
  return found;
}

void read_template(const JsonPlace& part, TokenizerJson& result) {
  part.require_object({"type", "single", "pair", "special_tokens"});
  const JsonPlace single = part.member("single");
  bool behind = false;
  for (size_t i = 0; i < single.array_size(); ++i) {
    const JsonPlace piece = single.element(i).require_object({"SpecialToken", "Sequence"});
    const JsonPlace special = piece.member("SpecialToken");
    if (special.is_null()) {
      if (behind) piece.fail("is a second Sequence");
      behind = true;
      continue;
    }
    std::vector<int32_t>& ids = behind ? result.last_ids : result.first_ids;
    for (const int32_t id :
         ids_of_special(part.member("special_tokens"), special.member("id").text(), result))
      ids.push_back(id);
  }
  if (!behind) single.fail("has no Sequence");
}

void read_post_processor(const JsonPlace& place, TokenizerJson& result) {
  for_each_part(place, "processors", [&](const JsonPlace& part) {
    const std::string& type = type_of(part);
    if (type == "ByteLevel") return;  // changes offsets alone
    if (type != "TemplateProcessing") refuse(part, "TemplateProcessing or ByteLevel");
    if (!result.first_ids.empty() || !result.last_ids.empty()) part.fail("is a second template");
    read_template(part, result);
  });
}

// With the ids that the library would give, which does not look at those of the file.
void read_added_tokens(const JsonPlace& place, TokenizerJson& result, StringIds& ids) {
  if (place.is_null()) return;
  const size_t model_size = ids.size();
  size_t next = model_size;
  for (size_t i = 0; i < place.array_size(); ++i) {
    const JsonPlace part = place.element(i).require_object(
        {"id", "content", "single_word", "lstrip", "rstrip", "normalized", "special"});
    AddedToken token;
    token.content = part.member("content").text();
    token.id = part.member("id").integer(kMostTokenId);
    token.single_word = part.member("single_word").boolean_or(false);
    token.lstrip = part.member("lstrip").boolean_or(false);
    token.rstrip = part.member("rstrip").boolean_or(false);
    token.special = part.member("special").boolean_or(false);
    token.normalized = part.member("normalized").boolean_or(!token.special);
    if (token.content.empty()) part.member("content").fail("is empty");
    const int32_t known = ids.find(token.content);
    const size_t expected = known == StringIds::kNone ? next : static_cast<size_t>(known);
    if (static_cast<size_t>(token.id) != expected)
      part.member("id").fail(str("is ", token.id, ", and the id of ", quote(token.content), " is ",
                                 expected, " by the vocabulary and the tokens before it"));
    if (known == StringIds::kNone) {
      if (expected < result.pieces.size() && !result.pieces[expected].empty())
        part.member("id").fail(
            str("is ", token.id, ", which ", quote(result.pieces[expected]), " has too"));
      if (result.pieces.size() <= expected) result.pieces.resize(expected + 1);
      result.pieces[expected] = token.content;
      ids.add(token.content, token.id);
    }
    next = std::max(next, static_cast<size_t>(token.id) + 1);
    const bool is_second =
        std::any_of(result.added.begin(), result.added.end(),
                    [&](const AddedToken& other) { return other.id == token.id; });
    if (is_second) part.member("content").fail(str("is ", quote(token.content), " a second time"));
    result.added.push_back(std::move(token));
  }
}

// `scanned` has vocabulary and merges where `bytes` does not.
TokenizerJson read_whole(std::string_view bytes, const std::string& origin,
                         ScannedVocabulary* scanned) {
  const json value = parse_strict_json(
      bytes, {ErrorKind::kData, origin,
              "the file is damaged or cut short: get it again from where it came"});
  const JsonPlace whole(value, origin);
  whole.require_object({"version", "truncation", "padding", "added_tokens", "normalizer",
                        "pre_tokenizer", "post_processor", "decoder", "model"});
  TokenizerJson result;
  StringIds ids = read_bpe_model(whole.member("model"), scanned, result);
  read_added_tokens(whole.member("added_tokens"), result, ids);
  read_normalizer(whole.member("normalizer"), result);
  const JsonPlace pre_tokenizer = whole.member("pre_tokenizer");
  read_pre_tokenizer(pre_tokenizer, result);
  read_post_processor(whole.member("post_processor"), result);
  const JsonPlace decoder = whole.member("decoder");
  if (type_of(decoder) != "ByteLevel") refuse(decoder, "ByteLevel");
  return result;
}

}  // namespace

TokenizerJson read_tokenizer_json(std::string_view bytes, const std::string& origin) {
  if (std::optional<ScannedVocabulary> scanned = scan_vocabulary(bytes)) {
    try {
      return read_whole(scanned->rest, origin, &*scanned);
    } catch (const Error&) {
      // The whole file is read for the message: it names bytes of the file, and the first fault.
    }
  }
  return read_whole(bytes, origin, nullptr);
}

}  // namespace lmtrain
