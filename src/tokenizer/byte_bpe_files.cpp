#include "tokenizer/byte_bpe_files.h"

#include <nlohmann/json.hpp>
#include <string>

#include "tokenizer/byte_alphabet.h"

namespace lmtrain {
namespace {

using Json = nlohmann::ordered_json;

Json added_token(std::string_view content, int32_t id) {
  return {{"id", id},        {"content", content},  {"single_word", false}, {"lstrip", false},
          {"rstrip", false}, {"normalized", false}, {"special", true}};
}

Json byte_level(bool add_prefix_space, bool trim_offsets, bool use_regex) {
  return {{"type", "ByteLevel"},
          {"add_prefix_space", add_prefix_space},
          {"trim_offsets", trim_offsets},
          {"use_regex", use_regex}};
}

// It changes offsets alone.
Json byte_level_processor() { return byte_level(true, false, true); }

Json bos_template() {
  const auto special = [] { return Json{{"SpecialToken", {{"id", kByteBpeBos}, {"type_id", 0}}}}; };
  const auto text = [](const char* name, int type) {
    return Json{{"Sequence", {{"id", name}, {"type_id", type}}}};
  };
  Json specials = Json::object();
  specials[std::string(kByteBpeBos)] = {
      {"id", kByteBpeBos}, {"ids", Json::array({0})}, {"tokens", Json::array({kByteBpeBos})}};
  return {{"type", "TemplateProcessing"},
          {"single", Json::array({special(), text("A", 0)})},
          {"pair", Json::array({special(), text("A", 0), text("B", 1)})},
          {"special_tokens", std::move(specials)}};
}

std::string spelled(const std::string& bytes) {
  std::string token;
  for (const char c : bytes) token += token_of_byte(static_cast<unsigned char>(c));
  return token;
}

Json model_json(const BpeModel& model) {
  std::vector<std::string> tokens;
  tokens.reserve(model.tokens.size());
  for (const auto& bytes : model.tokens) tokens.push_back(spelled(*bytes));
  Json json = {{"type", "BPE"},
               {"dropout", nullptr},
               {"unk_token", nullptr},
               {"continuing_subword_prefix", nullptr},
               {"end_of_word_suffix", nullptr},
               {"fuse_unk", false},
               {"byte_fallback", false},
               {"ignore_merges", false},
               {"vocab", Json::object()},
               {"merges", Json::array()}};
  // Appends without the search through all keys that an ordered object makes for a new one.
  auto& vocab = json["vocab"].get_ref<Json::object_t&>();
  vocab.reserve(tokens.size() + kNumByteBpeSpecials);
  vocab.emplace_back(kByteBpeBos, 0);
  vocab.emplace_back(kByteBpeEos, 1);
  for (size_t i = 0; i < tokens.size(); ++i)
    vocab.emplace_back(tokens[i], static_cast<int64_t>(i) + kNumByteBpeSpecials);
  for (const BpeModel::Merge& merge : model.merges) {
    json["merges"].push_back(Json::array(
        {tokens[static_cast<size_t>(merge.left)], tokens[static_cast<size_t>(merge.right)]}));
  }
  return json;
}

}  // namespace

PreTokenizer byte_bpe_pre_tokenizer() {
  std::vector<PreTokenizerStep> steps(1);
  steps.front().regex.emplace(kLlama3Pattern, "tokenizer.train.type byte_bpe");
  return PreTokenizer(std::move(steps));
}

std::vector<TokenizerFile> byte_bpe_files(const BpeModel& model, bool add_bos) {
  const Json split = {{"type", "Split"},
                      {"pattern", {{"Regex", kLlama3Pattern}}},
                      {"behavior", "Isolated"},
                      {"invert", false}};
  Json processor = byte_level_processor();
  if (add_bos) {
    processor = {{"type", "Sequence"},
                 {"processors", Json::array({byte_level_processor(), bos_template()})}};
  }
  const Json tokenizer = {
      {"version", "1.0"},
      {"truncation", nullptr},
      {"padding", nullptr},
      {"added_tokens", Json::array({added_token(kByteBpeBos, 0), added_token(kByteBpeEos, 1)})},
      {"normalizer", nullptr},
      {"pre_tokenizer",
       {{"type", "Sequence"},
        {"pretokenizers", Json::array({split, byte_level(false, true, false)})}}},
      {"post_processor", std::move(processor)},
      {"decoder", byte_level(true, true, true)},
      {"model", model_json(model)}};
  const Json specials = {{"bos_token", kByteBpeBos}, {"eos_token", kByteBpeEos}};
  return {{"tokenizer.json", tokenizer.dump(2)},
          {"special_tokens_map.json", specials.dump(2) + "\n"}};
}

}  // namespace lmtrain
