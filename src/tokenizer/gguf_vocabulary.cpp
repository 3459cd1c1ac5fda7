#include "tokenizer/gguf_vocabulary.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <string_view>

#include "base/error.h"
#include "base/text.h"
#include "tokenizer/added_pieces.h"
#include "tokenizer/model_proto.h"

namespace lmtrain {
namespace {

constexpr float kScoreOfAddedPiece = -1000;

[[noreturn]] void refuse(const std::string& origin, std::string_view why) {
  throw Error(ErrorKind::kData, str(origin, ": ", why,
                                    "; a GGUF file would give other ids. Export with --format hf"));
}

// A rule as llama.cpp knows it: its name, whether a word that is a token is taken whole, and the
// patterns that the tokenizer.json of its models has, one after another.
struct CuttingRule {
  std::string_view name;
  bool ignores_merges;
  std::vector<std::string_view> patterns;
};

constexpr std::string_view kQwen2 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|)"
    R"(\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kCasedEnd = R"(| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kDeepseekHan = "[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+";
constexpr std::string_view kDeepseek =
    R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+|)"
    R"( ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

// If rules cut alike, gguf_pre_name() takes the first, or the first with the same ignores_merges.
// "dbrx" cuts like Llama 3's without taking words whole.
const std::array<CuttingRule, 8>& rules() {
  static const std::string o200k = str(kO200kWords, R"(\p{N}{1,3})", kCasedEnd);
  static const std::string tekken = str(kTekkenWords, R"(\p{N})", kCasedEnd);
  static const std::array<CuttingRule, 8> all = {
      {{"gpt-2", false, {kGpt2Pattern}},
       {"llama-bpe", true, {kLlama3Pattern}},
       {"dbrx", false, {kLlama3Pattern}},
       {"qwen2", false, {kQwen2}},
       {"smollm", false, {R"(\p{N})", kGpt2Pattern}},
       {"gpt-4o", false, {o200k}},
       {"tekken", true, {tekken}},
       {"deepseek-v3", false, {R"(\p{N}{1,3})", kDeepseekHan, kDeepseek}}}};
  return all;
}

// Whether the merges give each token's own id to a word that is the token. Added tokens are left
// out: they are found before text is cut into words.
bool merges_give_tokens(const TokenizerJson& json) {
  BpeModel model = json.model;
  model.ignores_merges = false;
  const ByteBpe bpe(model);
  ByteBpe::Scratch scratch;
  std::set<int32_t> added;
  for (const AddedToken& token : json.added) added.insert(token.id);
  std::array<bool, 256> has_token{};
  for (const auto& token : model.tokens) {
    if (token && token->size() == 1) has_token[static_cast<unsigned char>(token->front())] = true;
  }
  IdBuffer ids;
  for (size_t id = 0; id < model.tokens.size(); ++id) {
    const auto& token = model.tokens[id];
    if (!token || token->empty() || added.contains(static_cast<int32_t>(id))) continue;
    const bool is_spelled = std::all_of(token->begin(), token->end(), [&](char byte) {
      return has_token[static_cast<unsigned char>(byte)];
    });
    if (!is_spelled) return false;
    ids.clear();
    bpe.encode_word(*token, scratch, ids);
    if (ids.ids().size() != 1 || ids.ids().front() != static_cast<int32_t>(id)) return false;
  }
  return true;
}

// A quotation mark needs no backslash, and some files have one before it.
std::string without_escaped_quotes(std::string_view pattern) {
  std::string result;
  for (size_t i = 0; i < pattern.size(); ++i) {
    if (pattern.substr(i, 2) != "\\\"") result += pattern[i];
  }
  return result;
}

// The patterns of the steps; nothing if a step cuts in a way that no rule has.
std::optional<std::vector<std::string>> patterns_of(const TokenizerJson& json) {
  std::vector<std::string> patterns;
  for (const PreTokenizerStep& step : json.steps) {
    if (!step.regex) continue;
    // "Removed" and inverted keeps the matches; the patterns of the rules match all text.
    if (step.removes != step.is_inverted || step.merge != PreTokenizerStep::Merge::kNone ||
        step.spells_bytes)
      return std::nullopt;
    patterns.push_back(without_escaped_quotes(step.regex->pattern()));
  }
  return patterns;
}

std::string placeholder(size_t id) { return str("[PAD", id, "]"); }

void fill_holes(size_t size, GgufVocabulary& result) {
  result.tokens.resize(size);
  result.types.resize(size, GgufVocabulary::kUnused);
  for (size_t id = 0; id < size; ++id) {
    if (!result.tokens[id].empty()) continue;
    result.tokens[id] = placeholder(id);
    result.types[id] = GgufVocabulary::kUnused;
  }
}

void require_distinct(const GgufVocabulary& vocabulary, const std::string& origin) {
  std::set<std::string_view> seen;
  for (const std::string& token : vocabulary.tokens) {
    if (!seen.insert(token).second)
      refuse(origin,
             str("the token ", quote(token), " has two ids, which llama.cpp does not read"));
  }
}

void note_added(const std::vector<AddedToken>& added, GgufVocabulary& result) {
  for (const AddedToken& token : added) {
    if (!token.lstrip && !token.rstrip && !token.single_word) continue;
    result.differences.push_back(str("llama.cpp finds the added token ", quote(token.content),
                                     " in any place, and leaves the white space around it"));
    return;
  }
}

// How a tokenizer marks spaces before it encodes.
struct SpaceMarks {
  bool are_marked = false;    // a space becomes U+2581
  bool has_prefix = false;    // a mark stands before the text
  bool is_splitting = false;  // text is cut before each mark
};

SpaceMarks marks_of(const TokenizerJson& json, const std::string& origin, GgufVocabulary& result) {
  SpaceMarks marks;
  for (const NormalizerStep& step : json.normalizer) {
    const Replacement& change = step.replacement;
    if (step.kind == NormalizerStep::Kind::kPrepend && change.content == kSpaceMark) {
      marks.has_prefix = true;
    } else if (step.kind == NormalizerStep::Kind::kReplace && change.literal == " " &&
               change.content == kSpaceMark) {
      marks.are_marked = true;
    } else {
      refuse(origin, "it changes text before it encodes (normalizer), which llama.cpp does not");
    }
  }
  for (const PreTokenizerStep& step : json.steps) {
    // Behind the marks there is no space at which the pattern " " could cut.
    const bool cuts_nowhere = marks.are_marked && step.regex && step.regex->pattern() == " ";
    if (step.space == kSpaceMark && !marks.are_marked) {
      marks = {true, step.prefix != PreTokenizerStep::Prefix::kNever, step.regex.has_value()};
      if (marks.has_prefix)
        result.differences.emplace_back(
            "llama.cpp also puts a space before a text that begins with one, and before each text "
            "behind a special token");
    } else if (!cuts_nowhere) {
      refuse(origin, "llama.cpp has no name for the rule by which it cuts text into words");
    }
  }
  if (!marks.are_marked) refuse(origin, "it marks spaces in a way that llama.cpp does not have");
  return marks;
}

// llama.cpp joins any neighbours that spell a token, the highest score first; the file lists pairs
// by rank. Returns scores by id with which both join alike, or refuses.
std::vector<float> scores_of(const TokenizerJson& json, const std::string& origin) {
  const BpeModel& model = json.model;
  std::vector<float> scores(json.pieces.size(), 0);
  std::set<std::pair<int32_t, int32_t>> pairs;
  std::set<int32_t> joined;
  for (const BpeModel::Merge& merge : model.merges) {
    pairs.emplace(merge.left, merge.right);
    float& score = scores[static_cast<size_t>(merge.joined)];
    if (joined.insert(merge.joined).second) {
      score = -static_cast<float>(joined.size());
    } else if (score != -static_cast<float>(joined.size())) {
      refuse(origin,
             str("the merges that give ", quote(json.pieces[static_cast<size_t>(merge.joined)]),
                 " do not stand together, and llama.cpp has one score for a token"));
    }
  }
  std::set<int32_t> others;
  for (const AddedToken& token : json.added) others.insert(token.id);
  std::map<std::string_view, int32_t> ids;
  for (size_t id = 0; id < model.tokens.size(); ++id) {
    const auto& token = model.tokens[id];
    if (!token || fallback_byte(*token) || others.contains(static_cast<int32_t>(id))) continue;
    ids.emplace(*token, static_cast<int32_t>(id));
  }
  for (const auto& [text, id] : ids) {
    for (size_t middle = 1; middle < text.size(); ++middle) {
      const auto left = ids.find(text.substr(0, middle));
      const auto right = ids.find(text.substr(middle));
      if (left == ids.end() || right == ids.end() || pairs.contains({left->second, right->second}))
        continue;
      refuse(origin, str("it does not join ", quote(left->first), " and ", quote(right->first),
                         ", and llama.cpp does, since ", quote(text), " is a token"));
    }
  }
  return scores;
}

GgufVocabulary from_character_json(const TokenizerJson& json, const std::string& origin) {
  GgufVocabulary result;
  result.model = "llama";
  result.pre = "default";
  const SpaceMarks marks = marks_of(json, origin, result);
  result.adds_space_prefix = marks.has_prefix;
  if (json.model.ignores_merges)
    refuse(origin,
           "it takes words whole that are tokens (ignore_merges), which llama.cpp does not");
  result.tokens = json.pieces;
  result.scores = scores_of(json, origin);
  result.types.assign(json.pieces.size(), GgufVocabulary::kNormal);
  size_t num_bytes = 0;
  for (size_t id = 0; id < json.model.tokens.size(); ++id) {
    const auto& token = json.model.tokens[id];
    if (!token) continue;
    if (json.model.byte_fallback && fallback_byte(*token)) {
      result.types[id] = GgufVocabulary::kByte;
      ++num_bytes;
    }
    if (marks.is_splitting && token->find(kSpaceMark, 1) != std::string::npos)
      refuse(origin,
             str("it cuts text before each space, and llama.cpp would join ", quote(*token)));
  }
  for (const AddedToken& token : json.added) {
    result.types[static_cast<size_t>(token.id)] =
        token.special ? GgufVocabulary::kControl : GgufVocabulary::kUserDefined;
  }
  if (json.model.unk_id)
    result.types[static_cast<size_t>(*json.model.unk_id)] = GgufVocabulary::kUnknown;
  if (num_bytes != 256)
    refuse(origin, "it has no byte fallback, and llama.cpp ends at a character without a token");
  note_added(json.added, result);
  return result;
}

GgufVocabulary from_json(const Tokenizer& tokenizer, const std::string& origin) {
  const TokenizerJson json = read_tokenizer_json(tokenizer.model_bytes(), origin);
  if (!json.is_byte_level) return from_character_json(json, origin);
  GgufVocabulary result;
  result.model = "gpt2";
  result.pre = gguf_pre_name(json, origin);
  result.tokens = json.pieces;
  result.types.assign(json.pieces.size(), GgufVocabulary::kNormal);
  for (const AddedToken& token : json.added) {
    result.types[static_cast<size_t>(token.id)] =
        token.special ? GgufVocabulary::kControl : GgufVocabulary::kUserDefined;
  }
  for (const BpeModel::Merge& merge : json.model.merges) {
    result.merges.push_back(str(json.pieces[static_cast<size_t>(merge.left)], " ",
                                json.pieces[static_cast<size_t>(merge.right)]));
  }
  for (const NormalizerStep& step : json.normalizer) {
    if (step.kind != NormalizerStep::Kind::kForm || step.form != UnicodeForm::kNfc)
      refuse(origin, "it changes text before it encodes (normalizer), which llama.cpp does not");
    result.differences.assign(
        {"llama.cpp does not bring text into the normal form NFC before it is encoded"});
  }
  note_added(json.added, result);
  return result;
}

void require_llama_model(const SentencePieceModel& model, const std::string& origin) {
  if (model.type != ModelType::kBpe) {
    refuse(origin, model.type == ModelType::kUnigram
                       ? "it is a unigram model, which llama.cpp reads without byte fallback"
                       : "it is no BPE model of sentencepiece, and llama.cpp has no other");
  }
  if (model.changes_characters)
    refuse(origin, "it replaces characters before it encodes, which llama.cpp does not");
  if (model.removes_spaces) refuse(origin, "it removes repeated spaces, which llama.cpp does not");
  if (model.space_is_suffix || !model.escapes_spaces)
    refuse(origin, "it marks spaces in a way that llama.cpp does not have");
}

GgufVocabulary from_sentencepiece(const Tokenizer& tokenizer, const std::string& origin) {
  const SentencePieceModel model = read_model(tokenizer.model_bytes());
  require_llama_model(model, origin);
  GgufVocabulary result;
  result.model = "llama";
  result.pre = "default";
  result.adds_space_prefix = model.adds_prefix;
  for (const ModelPiece& piece : model.pieces) {
    result.tokens.push_back(piece.text);
    result.types.push_back(static_cast<int32_t>(piece.type));
    result.scores.push_back(piece.score);
  }
  const AddedPieces added = read_added_pieces(tokenizer.files(), model.pieces, origin);
  for (const AddedToken& token : added.tokens) {
    const auto id = static_cast<size_t>(token.id);
    if (id < model.pieces.size() && (model.pieces[id].type == PieceType::kUnknown ||
                                     model.pieces[id].type == PieceType::kControl))
      continue;
    if (id >= result.tokens.size()) {
      result.tokens.resize(id + 1);
      result.types.resize(id + 1, GgufVocabulary::kUnused);
      result.scores.resize(id + 1, kScoreOfAddedPiece);
    }
    result.tokens[id] = token.content;
    result.types[id] = token.special ? GgufVocabulary::kControl : GgufVocabulary::kUserDefined;
  }
  const bool has_bytes =
      std::any_of(model.pieces.begin(), model.pieces.end(),
                  [](const auto& piece) { return piece.type == PieceType::kByte; });
  if (!has_bytes)
    result.differences.emplace_back(
        "the tokenizer has no byte fallback, and llama.cpp ends at a character that no piece has");
  note_added(added.tokens, result);
  return result;
}

}  // namespace

std::string gguf_pre_name(const TokenizerJson& json, const std::string& origin) {
  for (const PreTokenizerStep& step : json.steps) {
    if (step.adds_prefix_space)
      refuse(origin,
             "it puts a space before the text (add_prefix_space), which llama.cpp does not");
  }
  const auto patterns = patterns_of(json);
  std::vector<const CuttingRule*> same_cut;
  for (const CuttingRule& rule : rules()) {
    if (patterns &&
        std::equal(patterns->begin(), patterns->end(), rule.patterns.begin(), rule.patterns.end()))
      same_cut.push_back(&rule);
  }
  if (same_cut.empty()) {
    std::vector<std::string> names;
    for (const CuttingRule& rule : rules()) names.emplace_back(rule.name);
    refuse(origin, str("llama.cpp has no name for the rule by which it cuts text into words (known "
                       "here: ",
                       join(names, ", "), ")"));
  }
  // Then ignore_merges makes no difference.
  if (merges_give_tokens(json)) return std::string(same_cut.front()->name);
  for (const CuttingRule* rule : same_cut) {
    if (rule->ignores_merges == json.model.ignores_merges) return std::string(rule->name);
  }
  refuse(origin, str("it ", json.model.ignores_merges ? "takes" : "does not take",
                     " words whole that are tokens (ignore_merges), and llama.cpp's rule ",
                     quote(std::string(same_cut.front()->name)), " does the opposite"));
}

GgufVocabulary gguf_vocabulary(const Tokenizer& tokenizer, int64_t vocab_size,
                               const std::string& origin) {
  if (tokenizer.vocab_size() > vocab_size) {
    throw Error(ErrorKind::kData,
                str(origin, " has ", tokenizer.vocab_size(), " pieces, the model only ", vocab_size,
                    "; they do not belong together"));
  }
  if (tokenizer.eos_id() < 0) {
    throw Error(ErrorKind::kData,
                str(origin,
                    ": its files name no EOS, and llama.cpp would end texts at another token; name "
                    "it as eos_token in tokenizer_config.json"));
  }
  GgufVocabulary result =
      tokenizer.is_json() ? from_json(tokenizer, origin) : from_sentencepiece(tokenizer, origin);
  fill_holes(static_cast<size_t>(vocab_size), result);
  if (!result.scores.empty())
    result.scores.resize(static_cast<size_t>(vocab_size), kScoreOfAddedPiece);
  require_distinct(result, origin);
  return result;
}

void add_gguf_vocabulary(const GgufVocabulary& vocabulary, const Tokenizer& tokenizer,
                         GgufMetadata& metadata) {
  metadata.add_text("tokenizer.ggml.model", vocabulary.model);
  metadata.add_text("tokenizer.ggml.pre", vocabulary.pre);
  metadata.add_texts("tokenizer.ggml.tokens", vocabulary.tokens);
  if (!vocabulary.scores.empty()) metadata.add_numbers("tokenizer.ggml.scores", vocabulary.scores);
  metadata.add_integers("tokenizer.ggml.token_type", vocabulary.types);
  if (vocabulary.model == "gpt2") metadata.add_texts("tokenizer.ggml.merges", vocabulary.merges);
  const auto add_id = [&](const char* name, int32_t id) {
    if (id >= 0) metadata.add_integer(str("tokenizer.ggml.", name), static_cast<uint32_t>(id));
  };
  add_id("bos_token_id", tokenizer.bos_id());
  add_id("eos_token_id", tokenizer.eos_id());
  add_id("unknown_token_id", tokenizer.unk_id());
  add_id("padding_token_id", tokenizer.pad_id());
  metadata.add_flag("tokenizer.ggml.add_bos_token", tokenizer.adds_bos());
  metadata.add_flag("tokenizer.ggml.add_eos_token", false);
  if (vocabulary.adds_space_prefix)
    metadata.add_flag("tokenizer.ggml.add_space_prefix", *vocabulary.adds_space_prefix);
}

}  // namespace lmtrain
