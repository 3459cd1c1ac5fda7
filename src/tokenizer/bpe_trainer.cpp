#include "tokenizer/bpe_trainer.h"

#include <algorithm>
#include <map>
#include <queue>
#include <set>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "base/stop.h"
#include "base/utf8.h"

namespace lmtrain {
namespace {

constexpr size_t kLongestLearned = 16;  // characters, as sentencepiece's default
constexpr uint32_t kNone = UINT32_MAX;

// A string that is a character or may become a piece. The same string is the same symbol, whatever
// it was merged from, since the encoder merges any two neighbours that join to a piece.
struct Symbol {
  std::string text;
  size_t num_characters = 0;
  int64_t count = 0;            // how often neighbours join to it now
  std::vector<uint32_t> words;  // where they do, or did
};

struct Word {
  std::vector<uint32_t> symbols;  // kNone: a character that is not covered
  int64_t count = 0;
};

class BpeTrainer {
 public:
  BpeTrainer(const WordCounts& words, double coverage) {
    cover_characters(words, coverage);
    words_.reserve(words.size());
    for (const auto& [text, count] : words) {
      words_.push_back({split(text), count});
      add_candidates(static_cast<uint32_t>(words_.size() - 1), 1);
    }
    for (uint32_t id = 0; id < symbols_.size(); ++id) push(id);
  }

  BpeTrainer(const BpeTrainer&) = delete;  // the queue points back
  BpeTrainer& operator=(const BpeTrainer&) = delete;

  std::vector<std::string> characters() const { return characters_; }

  std::vector<std::string> learn(int64_t num_merges) {
    std::vector<std::string> merges;
    while (static_cast<int64_t>(merges.size()) < num_merges && !queue_.empty()) {
      const Candidate best = queue_.top();
      queue_.pop();
      const Symbol& symbol = symbols_[best.id];
      if (symbol.count != best.count) {  // changed since it was queued
        push(best.id);
        continue;
      }
      throw_if_stopped();
      merges.push_back(symbol.text);
      is_piece_[best.id] = true;
      merge(best.id);
    }
    return merges;
  }

 private:
  struct Candidate {
    int64_t count;
    uint32_t id;
  };

  void cover_characters(const WordCounts& words, double coverage) {
    std::map<std::string_view, int64_t> counts;
    int64_t total = 0;
    for (const auto& [text, count] : words) {
      for_each_character(text, [&, n = count](std::string_view character) {
        counts[character] += n;
        total += n;
      });
    }
    std::vector<std::pair<std::string_view, int64_t>> order(counts.begin(), counts.end());
    std::stable_sort(order.begin(), order.end(),
                     [](const auto& a, const auto& b) { return a.second > b.second; });
    int64_t covered = 0;
    for (const auto& [character, count] : order) {
      if (static_cast<double>(covered) >= coverage * static_cast<double>(total)) break;
      covered += count;
      characters_.emplace_back(character);
      intern(characters_.back(), 1);
    }
  }

  template <class Visit>
  static void for_each_character(std::string_view text, const Visit& visit) {
    while (!text.empty()) {
      char32_t code_point = 0;
      const size_t size = decode_utf8(text, code_point);
      visit(text.substr(0, size));
      text.remove_prefix(size);
    }
  }

  std::vector<uint32_t> split(std::string_view text) const {
    std::vector<uint32_t> symbols;
    for_each_character(text, [&](std::string_view character) {
      const auto found = ids_.find(std::string(character));
      symbols.push_back(found == ids_.end() ? kNone : found->second);
    });
    return symbols;
  }

  uint32_t intern(const std::string& text, size_t num_characters) {
    const auto [found, is_new] = ids_.emplace(text, static_cast<uint32_t>(symbols_.size()));
    if (is_new) {
      symbols_.push_back({text, num_characters, 0, {}});
      is_piece_.push_back(false);
    }
    return found->second;
  }

  // The symbol that two neighbours would join to, or kNone where no piece may be.
  uint32_t join(uint32_t left, uint32_t right) {
    if (left == kNone || right == kNone) return kNone;
    const uint64_t pair = (uint64_t{left} << 32) | right;
    const auto [found, is_new] = joins_.emplace(pair, kNone);
    if (!is_new) return found->second;
    const size_t num_characters = symbols_[left].num_characters + symbols_[right].num_characters;
    const std::string text = symbols_[left].text + symbols_[right].text;
    const size_t spaces = std::min(text.find_first_not_of(' '), text.size());
    if (num_characters > kLongestLearned || (spaces > 1 && spaces < text.size())) return kNone;
    return found->second = intern(text, num_characters);
  }

  // Calls visit(joined) for each pair of neighbours, overlapping ones ("aaa") once.
  template <class Visit>
  void for_each_pair(const std::vector<uint32_t>& symbols, const Visit& visit) {
    uint32_t previous = kNone;
    for (size_t i = 0; i + 1 < symbols.size(); ++i) {
      const uint32_t joined = join(symbols[i], symbols[i + 1]);
      const bool overlaps = joined != kNone && joined == previous;
      if (joined != kNone && !overlaps) visit(joined);
      previous = overlaps ? kNone : joined;
    }
  }

  // Adds (sign 1) or takes away (sign -1) what a word counts for its pairs.
  void add_candidates(uint32_t word, int64_t sign) {
    for_each_pair(words_[word].symbols, [&](uint32_t joined) {
      Symbol& symbol = symbols_[joined];
      symbol.count += sign * words_[word].count;
      if (sign > 0 && (symbol.words.empty() || symbol.words.back() != word))
        symbol.words.push_back(word);
    });
  }

  void merge(uint32_t id) {
    std::set<uint32_t> changed = join_in_words(id);
    while (!changed.empty()) {
      const uint32_t joined = changed.extract(changed.begin()).value();
      if (is_piece_[joined] && symbols_[joined].count > 0) {
        // A merge can bring about another way to spell an older piece ("ab"+"c" after "a"+"bc");
        // the encoder joins it.
        changed.merge(join_in_words(joined));
      } else {
        push(joined);
      }
    }
  }

  // Joins neighbours to `id` wherever they are. Returns the symbols whose counts may have grown;
  // those that fell are corrected when their old entry in the queue comes up.
  std::set<uint32_t> join_in_words(uint32_t id) {
    const std::vector<uint32_t> affected = std::exchange(symbols_[id].words, {});
    std::set<uint32_t> changed;
    for (const uint32_t index : affected) {
      std::vector<uint32_t>& symbols = words_[index].symbols;
      std::vector<uint32_t> merged;
      merged.reserve(symbols.size());
      for (size_t i = 0; i < symbols.size(); ++i) {
        const bool joins = i + 1 < symbols.size() && join(symbols[i], symbols[i + 1]) == id;
        merged.push_back(joins ? id : symbols[i]);
        if (joins) ++i;
      }
      if (merged.size() == symbols.size()) continue;  // another merge came first
      add_candidates(index, -1);
      symbols = std::move(merged);
      add_candidates(index, 1);
      for_each_pair(symbols, [&](uint32_t joined) { changed.insert(joined); });
    }
    return changed;
  }

  void push(uint32_t id) {
    if (symbols_[id].count > 0) queue_.push({symbols_[id].count, id});
  }

  bool is_worse(const Candidate& a, const Candidate& b) const {
    if (a.count != b.count) return a.count < b.count;
    const Symbol& x = symbols_[a.id];
    const Symbol& y = symbols_[b.id];
    if (x.num_characters != y.num_characters) return x.num_characters > y.num_characters;
    return x.text > y.text;
  }

  std::vector<std::string> characters_;
  std::vector<Symbol> symbols_;
  std::vector<bool> is_piece_;  // of each symbol: learned already
  std::vector<Word> words_;
  std::unordered_map<std::string, uint32_t> ids_;
  std::unordered_map<uint64_t, uint32_t> joins_;
  struct Worse {
    const BpeTrainer* trainer;
    bool operator()(const Candidate& a, const Candidate& b) const {
      return trainer->is_worse(a, b);
    }
  };
  std::priority_queue<Candidate, std::vector<Candidate>, Worse> queue_{Worse{this}};
};

}  // namespace

BpePieces train_bpe(const WordCounts& words, int64_t budget, double coverage) {
  BpeTrainer trainer(words, coverage);
  BpePieces pieces;
  pieces.characters = trainer.characters();
  pieces.merges = trainer.learn(budget - static_cast<int64_t>(pieces.characters.size()));
  return pieces;
}

}  // namespace lmtrain
