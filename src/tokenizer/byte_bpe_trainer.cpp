#include "tokenizer/byte_bpe_trainer.h"

#include <algorithm>
#include <array>
#include <string>
#include <utility>
#include <vector>

#include "base/progress.h"
#include "base/stop.h"
#include "tokenizer/byte_alphabet.h"
#include "tokenizer/flat_map.h"
#include "tokenizer/merge_candidates.h"
#include "tokenizer/token_line.h"

namespace lmtrain {
namespace {

// Each token arises in one merge only. For equal stretches of text have equal joins while nothing
// joins across their ends, since in a run of equal tokens the left ones are joined first. So each
// pair arises in one step only, with its younger token, and never again once it is merged.
class ByteBpeTrainer {
 public:
  explicit ByteBpeTrainer(WordCounts words) : line_(num_slots(words)), places_(num_slots(words)) {
    add_alphabet();
    line_.append_words(words, [&](std::string_view text) {
      for (const char c : text) line_.append(byte_ids_[static_cast<unsigned char>(c)]);
    });
    WordCounts().swap(words);
    find_pairs();
  }

  BpeModel learn(size_t num_tokens) {
    PercentLine progress("training the tokenizer", static_cast<int64_t>(num_tokens));
    while (model_.tokens.size() < num_tokens) {
      const uint32_t best = queue_.pop(
          static_cast<uint32_t>(pairs_.size()), [&](uint32_t pair) { return pairs_[pair].count; },
          ComesAfter{pairs_});
      if (best == kNone) break;
      throw_if_stopped();
      merge(best);
      progress.show(static_cast<int64_t>(model_.tokens.size()));
    }
    return std::move(model_);
  }

  uint64_t work() const { return line_.work(); }

 private:
  static constexpr uint32_t kNone = TokenLine::kNone;

  static uint64_t num_slots(const WordCounts& words) {
    uint64_t sum = 1;
    for (const auto& [text, count] : words) sum += 1 + text.size();
    return sum;
  }

  struct Pair {
    uint64_t key;       // two tokens, ordered like them
    int64_t count = 0;  // how often they are neighbours now; 0 once they are merged

    uint32_t left() const { return static_cast<uint32_t>(key >> 32); }
    uint32_t right() const { return static_cast<uint32_t>(key); }
  };

  void add_alphabet() {
    std::array<std::pair<std::string, unsigned char>, 256> order;
    for (unsigned byte = 0; byte < 256; ++byte) {
      const auto value = static_cast<unsigned char>(byte);
      order[byte] = {token_of_byte(value), value};
    }
    std::sort(order.begin(), order.end());  // UTF-8 is ordered like its characters
    for (const auto& [token, byte] : order) {
      byte_ids_[byte] = line_.add_kind(1);
      model_.tokens.emplace_back(std::string(1, static_cast<char>(byte)));
    }
  }

  void find_pairs() {
    for (uint32_t slot = 0; slot + 1 < line_.size(); ++slot) {
      if (line_.token_at(slot) == kNone || line_.token_at(slot + 1) == kNone) continue;
      add_pair(slot, slot + 1);
      if (places_.is_flush_due()) file_places();
    }
    file_places();
  }

  // Files the noted places, and queues their pairs.
  void file_places() {
    throw_if_stopped();
    const auto is_there = [&](uint32_t pair, uint32_t slot) {
      return line_.has_pair(slot, length_of(pairs_[pair]));
    };
    places_.flush(is_there, [&](uint32_t pair) {
      queue_.offer(pair, pairs_[pair].count, ComesAfter{pairs_});
    });
  }

  uint32_t length_of(const Pair& pair) const {
    return line_.num_characters(pair.left()) + line_.num_characters(pair.right());
  }

  struct ComesAfter {
    const std::vector<Pair>& pairs;
    bool operator()(uint32_t a, uint32_t b) const { return pairs[a].key > pairs[b].key; }
  };

  uint32_t pair_of(uint32_t left, uint32_t right) {
    const uint64_t key = uint64_t{left} << 32 | right;
    const uint64_t found = index_of_pair_.find(key);
    if (found != FlatMap::kNone) return static_cast<uint32_t>(found);
    index_of_pair_.insert(key, pairs_.size());
    pairs_.push_back({key, 0});
    return static_cast<uint32_t>(pairs_.size() - 1);
  }

  void add_pair(uint32_t left, uint32_t right) {
    const uint32_t pair = pair_of(line_.token_at(left), line_.token_at(right));
    pairs_[pair].count += line_.weight_at(left);
    places_.note(pair, left);
  }

  void merge(uint32_t best) {
    const Pair pair = pairs_[best];
    const uint32_t joined = line_.add_kind(length_of(pair));
    model_.tokens.emplace_back(*model_.tokens[pair.left()] + *model_.tokens[pair.right()]);
    model_.merges.push_back({static_cast<int32_t>(pair.left()), static_cast<int32_t>(pair.right()),
                             static_cast<int32_t>(joined)});
    const std::vector<uint32_t> slots = places_.take(best);
    line_.join(
        slots, joined,
        [&](uint32_t left, uint32_t right) {
          pairs_[pair_of(line_.token_at(left), line_.token_at(right))].count -=
              line_.weight_at(left);
        },
        [&](uint32_t left, uint32_t right, bool /*is_last*/) { add_pair(left, right); });
    pairs_[best].count = 0;
    file_places();
  }

  BpeModel model_;
  std::array<uint32_t, 256> byte_ids_{};
  std::vector<Pair> pairs_;
  FlatMap index_of_pair_;  // by key
  TokenLine line_;
  PairPlaces places_;
  PairQueue queue_;
};

}  // namespace

BpeModel train_byte_bpe(WordCounts words, int64_t num_tokens, uint64_t* work) {
  ByteBpeTrainer trainer(std::move(words));
  BpeModel model = trainer.learn(static_cast<size_t>(num_tokens));
  if (work != nullptr) *work = trainer.work();
  return model;
}

}  // namespace lmtrain
