#include "tokenizer/tokenizer_json.h"

#include <algorithm>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <unordered_set>

#include "base/error.h"
#include "base/text.h"
#include "base/utf8.h"
#include "formats/strict_json.h"
#include "tokenizer/json_place.h"
#include "tokenizer/tokenizer_json_model.h"

namespace lmtrain {
namespace {

using nlohmann::json;

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

// Punctuation as the library has it: ASCII, and the categories P of Unicode 8.
constexpr std::string_view kPunctuation =
    R"((?![\x{61d}\x{9fd}\x{a76}\x{c77}\x{c84}\x{1b4e}-\x{1b4f}\x{1b7d}-\x{1b7f}\x{2e43}-\x{2e4f})"
    R"(\x{2e52}-\x{2e5d}\x{10d6e}\x{10ead}\x{10f55}-\x{10f59}\x{10f86}-\x{10f89}\x{113d4}-\x{113d8})"
    R"(\x{1144b}-\x{1144f}\x{1145a}-\x{1145b}\x{1145d}\x{11660}-\x{1166c}\x{116b9}\x{1183b})"
    R"(\x{11944}-\x{11946}\x{119e2}\x{11a3f}-\x{11a46}\x{11a9a}-\x{11a9c}\x{11a9e}-\x{11aa2})"
    R"(\x{11b00}-\x{11b09}\x{11be1}\x{11c41}-\x{11c45}\x{11c70}-\x{11c71}\x{11ef7}-\x{11ef8})"
    R"(\x{11f43}-\x{11f4f}\x{11fff}\x{12ff1}-\x{12ff2}\x{16d6d}-\x{16d6f}\x{16e97}-\x{16e9a})"
    R"(\x{16fe2}\x{1e5ff}\x{1e95e}-\x{1e95f}])[\p{P}$+<=>\^`|~\x{166d}\x{111c9}])";

// A literal text as a regular expression.
std::string literal_pattern(std::string_view text) {
  std::string result;
  for (const char c : text) {
    if (std::string_view("\\^$.[]|()?*+{}-").find(c) != std::string_view::npos) result += '\\';
    result += c;
  }
  return result;
}

// The member "pattern", {"Regex": ...} or {"String": ...}.
JsonPlace pattern_of(const JsonPlace& part, bool& is_regex) {
  const JsonPlace pattern = part.member("pattern").require_object({"Regex", "String"});
  const JsonPlace regex = pattern.member("Regex");
  const JsonPlace text = pattern.member("String");
  if (regex.is_null() == text.is_null()) pattern.fail("has not one of Regex and String");
  is_regex = !regex.is_null();
  const JsonPlace& found = is_regex ? regex : text;
  if (found.text().empty()) found.fail("is empty");
  return found;
}

Replacement read_replacement(const JsonPlace& part) {
  part.require_object({"type", "pattern", "content"});
  bool is_regex = false;
  const JsonPlace pattern = pattern_of(part, is_regex);
  Replacement result;
  if (is_regex) {
    result.regex.emplace(pattern.text(), pattern.name());
  } else {
    result.literal = pattern.text();
  }
  result.content = part.member("content").text();
  return result;
}

// A text of one character.
std::string character_of(const JsonPlace& place) {
  char32_t character = 0;
  const std::string& text = place.text();
  if (text.empty() || decode_utf8(text, character) != text.size())
    place.fail(str("is ", quote(text), ", not one character"));
  return text;
}

NormalizerStep read_normalizer_step(const JsonPlace& part) {
  using Kind = NormalizerStep::Kind;
  constexpr std::pair<std::string_view, UnicodeForm> kForms[] = {{"NFC", UnicodeForm::kNfc},
                                                                 {"NFD", UnicodeForm::kNfd},
                                                                 {"NFKC", UnicodeForm::kNfkc},
                                                                 {"NFKD", UnicodeForm::kNfkd}};
  const std::string& type = type_of(part);
  NormalizerStep step;
  for (const auto& [name, form] : kForms) {
    if (type != name) continue;
    part.require_object({"type"});
    step.form = form;
    return step;
  }
  if (type == "Lowercase") {
    part.require_object({"type"});
    step.kind = Kind::kLowercase;
  } else if (type == "Prepend") {
    part.require_object({"type", "prepend"});
    step.kind = Kind::kPrepend;
    step.replacement.content = part.member("prepend").text();
  } else if (type == "Replace") {
    step.kind = Kind::kReplace;
    step.replacement = read_replacement(part);
  } else {
    refuse(part, "NFC, NFD, NFKC, NFKD, Lowercase, Prepend, Replace or a Sequence of them");
  }
  return step;
}

void read_normalizer(const JsonPlace& place, TokenizerJson& result) {
  for_each_part(place, "normalizers", [&](const JsonPlace& part) {
    result.normalizer.push_back(read_normalizer_step(part));
  });
}

void set_behavior(const JsonPlace& behavior, PreTokenizerStep& step) {
  using Merge = PreTokenizerStep::Merge;
  const std::string& name = behavior.text();
  if (name == "Removed") {
    step.removes = true;
  } else if (name == "MergedWithPrevious") {
    step.merge = Merge::kPrevious;
  } else if (name == "MergedWithNext") {
    step.merge = Merge::kNext;
  } else if (name == "Contiguous") {
    step.merge = Merge::kWithMatches;
  } else if (name != "Isolated") {
    behavior.fail(str("is ", quote(name),
                      ", which is not supported (Isolated, Removed, MergedWithPrevious, "
                      "MergedWithNext and Contiguous are)"));
  }
}

PreTokenizerStep read_split(const JsonPlace& part) {
  part.require_object({"type", "pattern", "behavior", "invert"});
  PreTokenizerStep step;
  bool is_regex = false;
  const JsonPlace pattern = pattern_of(part, is_regex);
  step.regex.emplace(is_regex ? pattern.text() : literal_pattern(pattern.text()), pattern.name());
  set_behavior(part.member("behavior"), step);
  step.is_inverted = part.member("invert").boolean_or(false);
  return step;
}

PreTokenizerStep::Prefix prefix_of(const JsonPlace& part) {
  using Prefix = PreTokenizerStep::Prefix;
  const JsonPlace scheme = part.member("prepend_scheme");
  const JsonPlace adds = part.member("add_prefix_space");
  const std::string name = scheme.is_null() ? "always" : scheme.text();
  if (name != "always" && name != "first" && name != "never")
    scheme.fail(str("is ", quote(name), ", which is not supported (always, first and never are)"));
  if (!adds.boolean_or(true)) {
    if (!scheme.is_null() && name != "never")
      adds.fail(str("is false, and prepend_scheme beside it is ", quote(name)));
    return Prefix::kNever;
  }
  return name == "always" ? Prefix::kAlways : name == "first" ? Prefix::kFirst : Prefix::kNever;
}

PreTokenizerStep read_metaspace(const JsonPlace& part) {
  part.require_object(
      {"type", "replacement", "str_rep", "add_prefix_space", "prepend_scheme", "split"});
  PreTokenizerStep step;
  step.space = character_of(part.member("replacement"));
  step.prefix = prefix_of(part);
  if (part.member("split").boolean_or(true)) {
    step.regex.emplace(literal_pattern(step.space), part.name());
    step.merge = PreTokenizerStep::Merge::kNext;
  }
  return step;
}

PreTokenizerStep read_pre_tokenizer_step(const JsonPlace& part) {
  const std::string& type = type_of(part);
  if (type == "Split") return read_split(part);
  if (type == "Metaspace") return read_metaspace(part);
  PreTokenizerStep step;
  if (type == "ByteLevel") {
    part.require_object({"type", "add_prefix_space", "trim_offsets", "use_regex"});
    step.adds_prefix_space = part.member("add_prefix_space").boolean_or(true);
    if (part.member("use_regex").boolean_or(true)) step.regex.emplace(kGpt2Pattern, part.name());
  } else if (type == "Digits") {
    part.require_object({"type", "individual_digits"});
    const bool each = part.member("individual_digits").boolean_or(false);
    step.regex.emplace(each ? "\\p{N}" : "\\p{N}+", part.name());
  } else if (type == "Punctuation") {
    part.require_object({"type", "behavior"});
    step.regex.emplace(kPunctuation, part.name());
    if (const JsonPlace behavior = part.member("behavior"); !behavior.is_null())
      set_behavior(behavior, step);
  } else {
    refuse(part, "ByteLevel, Split, Digits, Punctuation, Metaspace or a Sequence of them");
  }
  return step;
}

void read_pre_tokenizer(const JsonPlace& place, TokenizerJson& result) {
  size_t byte_level = 0;  // its step
  for_each_part(place, "pretokenizers", [&](const JsonPlace& part) {
    const bool is_byte_level = type_of(part) == "ByteLevel";
    if (is_byte_level && result.is_byte_level) part.fail("is a second ByteLevel");
    // A step behind ByteLevel sees the alphabet of bytes.
    if (result.is_byte_level) result.steps[byte_level].spells_bytes = true;
    if (is_byte_level) byte_level = result.steps.size();
    result.is_byte_level = result.is_byte_level || is_byte_level;
    result.steps.push_back(read_pre_tokenizer_step(part));
  });
}

DecoderStep read_decoder_step(const JsonPlace& part) {
  using Kind = DecoderStep::Kind;
  const std::string& type = type_of(part);
  DecoderStep step;
  if (type == "ByteLevel") {
    step.kind = Kind::kByteLevel;
  } else if (type == "Replace") {
    step.kind = Kind::kReplace;
    step.replacement = read_replacement(part);
  } else if (type == "ByteFallback") {
    step.kind = Kind::kByteFallback;
  } else if (type == "Fuse") {
    step.kind = Kind::kFuse;
  } else if (type == "Strip") {
    part.require_object({"type", "content", "start", "stop"});
    step.kind = Kind::kStrip;
    step.character = character_of(part.member("content"));
    step.start = part.member("start").integer(INT32_MAX);
    step.stop = part.member("stop").integer(INT32_MAX);
  } else if (type == "Metaspace") {
    step.kind = Kind::kMetaspace;
    step.character = character_of(part.member("replacement"));
    step.has_prefix = prefix_of(part) != PreTokenizerStep::Prefix::kNever;
  } else {
    refuse(part, "ByteLevel, Replace, ByteFallback, Fuse, Strip, Metaspace or a Sequence of them");
  }
  return step;
}

void read_decoder(const JsonPlace& place, TokenizerJson& result) {
  if (place.is_null()) type_of(place);  // a text is not made of tokens without one
  for_each_part(place, "decoders",
                [&](const JsonPlace& part) { result.decoder.push_back(read_decoder_step(part)); });
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
    const JsonPlace element = single.element(i).require_object({"SpecialToken", "Sequence"});
    const JsonPlace special = element.member("SpecialToken");
    if (special.is_null()) {
      if (behind) element.fail("is a second Sequence");
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

// Requires the ids that the library would give: it ignores the ids in the file.
void read_added_tokens(const JsonPlace& place, TokenizerJson& result, StringIds& ids) {
  if (place.is_null()) return;
  const size_t model_size = ids.size();
  std::unordered_set<int32_t> ids_of_added;
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
    if (!ids_of_added.insert(token.id).second)
      part.member("content").fail(str("is ", quote(token.content), " a second time"));
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
  read_pre_tokenizer(whole.member("pre_tokenizer"), result);
  StringIds ids = read_bpe_model(whole.member("model"), scanned, result);
  read_added_tokens(whole.member("added_tokens"), result, ids);
  read_normalizer(whole.member("normalizer"), result);
  read_post_processor(whole.member("post_processor"), result);
  read_decoder(whole.member("decoder"), result);
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
