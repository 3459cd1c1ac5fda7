#include "tokenizer/byte_bpe_trainer.h"

#include <algorithm>
#include <array>
#include <queue>
#include <string>
#include <utility>
#include <vector>

#include "base/stop.h"
#include "tokenizer/byte_alphabet.h"
#include "tokenizer/flat_map.h"

namespace lmtrain {
namespace {

// Two ids, ordered like them.
uint64_t key_of(int32_t left, int32_t right) {
  return uint64_t{static_cast<uint32_t>(left)} << 32 | static_cast<uint32_t>(right);
}

// A token arises in one merge alone, and in all words by that merge: as long as nothing is joined
// across the ends of a stretch of text, the same joins happen in it wherever it stands, since in a
// run of equal tokens the left ones are joined first. So a pair arises in one step alone too, that
// of its younger token, and never again once it is merged.
class ByteBpeTrainer {
 public:
  explicit ByteBpeTrainer(const WordCounts& words) {
    add_alphabet();
    words_.reserve(words.size());
    for (const auto& [text, count] : words) {
      const auto index = static_cast<uint32_t>(words_.size());
      words_.push_back({symbols_.size(), text.size(), count});
      for (const char c : text) symbols_.push_back(byte_ids_[static_cast<unsigned char>(c)]);
      const int32_t* symbols = symbols_.data() + words_.back().begin;
      for (size_t i = 0; i + 1 < text.size(); ++i) add_pair(symbols[i], symbols[i + 1], index);
    }
    queue_new_pairs();
  }

  ByteBpeModel learn(size_t num_tokens) {
    while (model_.tokens.size() < num_tokens && !queue_.empty()) {
      Candidate best = queue_.top();
      queue_.pop();
      const int64_t count = pairs_[best.pair].count;
      if (count != best.count) {  // it fell since the candidate was queued
        best.count = count;
        if (count > 0) queue_.push(best);
        continue;
      }
      throw_if_stopped();
      const auto left = static_cast<int32_t>(best.key >> 32);
      const auto right = static_cast<int32_t>(best.key & UINT32_MAX);
      const auto joined = static_cast<int32_t>(model_.tokens.size());
      model_.tokens.emplace_back(*model_.tokens[static_cast<size_t>(left)] +
                                 *model_.tokens[static_cast<size_t>(right)]);
      model_.merges.push_back({left, right, joined});
      for (const uint32_t word : std::exchange(pairs_[best.pair].words, {}))
        merge_in_word(word, left, right, joined);
      queue_new_pairs();
    }
    return std::move(model_);
  }

 private:
  struct Word {
    size_t begin;  // in symbols_
    size_t size;
    int64_t count;
  };
  struct Pair {
    uint64_t key;
    int64_t count = 0;            // how often its tokens are neighbours now
    std::vector<uint32_t> words;  // where they are, or were; ascending
  };
  struct Candidate {
    int64_t count;
    uint64_t key;
    size_t pair;  // in pairs_
  };
  struct Worse {
    bool operator()(const Candidate& a, const Candidate& b) const {
      return a.count != b.count ? a.count < b.count : a.key > b.key;
    }
  };

  void add_alphabet() {
    std::array<std::pair<std::string, unsigned char>, 256> order;
    for (unsigned byte = 0; byte < 256; ++byte) {
      const auto value = static_cast<unsigned char>(byte);
      order[byte] = {token_of_byte(value), value};
    }
    std::sort(order.begin(), order.end());  // UTF-8 is ordered like its characters
    for (const auto& [token, byte] : order) {
      byte_ids_[byte] = static_cast<int32_t>(model_.tokens.size());
      model_.tokens.emplace_back(std::string(1, static_cast<char>(byte)));
    }
  }

  Pair& pair_of(int32_t left, int32_t right) {
    const uint64_t key = key_of(left, right);
    const uint64_t found = index_of_pair_.find(key);
    if (found != FlatMap::kNone) return pairs_[found];
    index_of_pair_.insert(key, pairs_.size());
    return pairs_.emplace_back(Pair{key, 0, {}});
  }

  void add_pair(int32_t left, int32_t right, uint32_t word) {
    Pair& pair = pair_of(left, right);
    pair.count += words_[word].count;
    if (pair.words.empty() || pair.words.back() != word) pair.words.push_back(word);
  }

  void remove_pair(int32_t left, int32_t right, uint32_t word) {
    pair_of(left, right).count -= words_[word].count;
  }

  void queue_new_pairs() {
    for (; num_queued_ < pairs_.size(); ++num_queued_) {
      const Pair& pair = pairs_[num_queued_];
      if (pair.count > 0) queue_.push({pair.count, pair.key, num_queued_});
    }
  }

  // Joins each `left` with a `right` behind it, from the beginning of the word, and counts the
  // pairs that their neighbours are in. The merged pair itself is not counted down.
  void merge_in_word(uint32_t index, int32_t left, int32_t right, int32_t joined) {
    Word& word = words_[index];
    int32_t* symbols = symbols_.data() + word.begin;
    size_t size = 0;
    for (size_t i = 0; i < word.size; ++i) {
      if (symbols[i] != left || i + 1 == word.size || symbols[i + 1] != right) {
        symbols[size++] = symbols[i];
        continue;
      }
      if (size > 0) {
        remove_pair(symbols[size - 1], left, index);
        add_pair(symbols[size - 1], joined, index);
      }
      ++i;
      if (i + 1 < word.size) {
        remove_pair(right, symbols[i + 1], index);
        add_pair(joined, symbols[i + 1], index);
      }
      symbols[size++] = joined;
    }
    word.size = size;
  }

  ByteBpeModel model_;
  std::array<int32_t, 256> byte_ids_{};
  std::vector<int32_t> symbols_;  // of all words, one word after another
  std::vector<Word> words_;
  std::vector<Pair> pairs_;
  FlatMap index_of_pair_;  // by key
  size_t num_queued_ = 0;  // of pairs_
  std::priority_queue<Candidate, std::vector<Candidate>, Worse> queue_;
};

}  // namespace

ByteBpeModel train_byte_bpe(const WordCounts& words, int64_t num_tokens) {
  return ByteBpeTrainer(words).learn(static_cast<size_t>(num_tokens));
}

}  // namespace lmtrain
