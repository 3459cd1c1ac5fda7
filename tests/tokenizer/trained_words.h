// Words that vocabularies are trained on, for the tests of both trainers.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "base/read_file.h"
#include "tokenizer/word_counter.h"

namespace lmtrain {

// A case of tests/reference/vocabulary/golden.json, which tests/reference/vocabulary.py made.
struct GoldenVocabulary {
  std::string name;
  WordCounts words;
  std::vector<std::string> pieces;                       // of "bpe", by its definition
  std::vector<std::pair<int32_t, int32_t>> byte_merges;  // of "byte_bpe", by `tokenizers` 0.23.3
};

inline std::vector<GoldenVocabulary> golden_vocabularies() {
  const auto path = std::filesystem::path(LMTRAIN_SOURCE_DIR) / "tests/reference" / "vocabulary";
  std::vector<GoldenVocabulary> cases;
  for (const nlohmann::json& value : nlohmann::json::parse(read_file(path / "golden.json"))) {
    GoldenVocabulary golden;
    value.at("name").get_to(golden.name);
    value.at("words").get_to(golden.words);
    value.at("bpe").get_to(golden.pieces);
    value.at("byte_bpe").get_to(golden.byte_merges);
    cases.push_back(std::move(golden));
  }
  return cases;
}

struct WordsOfOneLength {
  std::string name;
  WordCounts words;
  uint64_t num_bytes = 0;  // of distinct words
};

// The same text of syllables in words of several lengths, one of which is all of it; and texts in
// which all pairs overlap.
inline std::vector<WordsOfOneLength> words_of_all_lengths(size_t num_bytes) {
  std::mt19937_64 random(1);
  std::vector<std::string> syllables;
  for (int i = 0; i < 300; ++i) {
    std::string& syllable = syllables.emplace_back();
    for (size_t size = 2 + random() % 5; size > 0; --size)
      syllable += static_cast<char>('a' + random() % 26);
  }
  std::string text;
  while (text.size() < num_bytes) text += syllables[random() % (1 + random() % syllables.size())];
  text.resize(num_bytes);
  std::string periodic;
  while (periodic.size() < num_bytes) periodic += "aab";
  const auto words_of = [](const std::string& name, const std::string& all, size_t size) {
    WordCounter counter;
    for (size_t begin = 0; begin < all.size(); begin += size)
      counter.add_word(std::string_view(all).substr(begin, size));
    WordsOfOneLength result{name, counter.sorted(), 0};
    for (const auto& [word, count] : result.words) result.num_bytes += word.size();
    return result;
  };
  return {words_of("10", text, 10),
          words_of("300", text, 300),
          words_of("4000", text, 4000),
          words_of("all", text, text.size()),
          words_of("one letter", std::string(num_bytes, 'a'), num_bytes),
          words_of("periodic", periodic, periodic.size())};
}

}  // namespace lmtrain
