#include "tokenizer/bpe_trainer.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <string_view>
#include <utility>

#include "base/hash.h"
#include "base/progress.h"
#include "base/stop.h"
#include "base/utf8.h"
#include "tokenizer/flat_map.h"
#include "tokenizer/merge_candidates.h"
#include "tokenizer/token_line.h"

namespace lmtrain {
namespace {

constexpr uint32_t kLongestLearned = 16;  // characters, as sentencepiece's default

template <class Visit>
void for_each_character(std::string_view text, const Visit& visit) {
  while (!text.empty()) {
    char32_t code_point = 0;
    const size_t size = decode_utf8(text, code_point);
    visit(code_point);
    text.remove_prefix(size);
  }
}

// A candidate is a text that may become a piece. Several pairs of tokens may spell it, since the
// encoder joins any two neighbours that spell a piece. So candidates are found by a hash of the
// text, which follows from the hashes of two halves.
class BpeTrainer {
 public:
  BpeTrainer(WordCounts words, double coverage)
      : line_(num_slots(words)), places_(num_slots(words)) {
    powers_[0] = 1;
    for (size_t i = 1; i < powers_.size(); ++i) powers_[i] = powers_[i - 1] * kBase;
    cover_characters(words, coverage);
    write_line(words);
    WordCounts().swap(words);
    find_candidates();
  }

  const std::vector<std::string>& characters() const { return characters_; }

  std::vector<std::string> learn(int64_t num_merges) {
    std::vector<std::string> merges;
    PercentLine progress("training the tokenizer", num_merges);
    while (static_cast<int64_t>(merges.size()) < num_merges) {
      const uint32_t best = queue_.pop(
          num_candidates(), [&](uint32_t id) { return candidates_[id].count; }, ComesAfter{*this});
      if (best == kNone) break;
      throw_if_stopped();
      merge(best);
      merges.push_back(tokens_.back().text);
      progress.show(static_cast<int64_t>(merges.size()));
    }
    return merges;
  }

  uint64_t work() const { return line_.work() + run_work_; }

 private:
  static constexpr uint32_t kNone = TokenLine::kNone;
  static constexpr uint64_t kBase = 0x9E3779B97F4A7C15ULL;  // odd

  static uint64_t num_slots(const WordCounts& words) {
    uint64_t sum = 1;
    for (const auto& [text, count] : words) {
      sum += 1 + static_cast<uint64_t>(std::count_if(
                     text.begin(), text.end(), [](char c) { return !is_utf8_continuation(c); }));
    }
    return sum;
  }

  struct Token {
    std::string text;
    uint64_t hash;        // of the text: a polynomial of its characters
    uint32_t first;       // the token of its first character
    uint32_t num_spaces;  // in front
  };
  struct Candidate {
    int64_t count = 0;  // how often neighbours join to it now; 0 once it is a piece
    uint32_t left;      // two tokens that spell it
    uint32_t right;
    uint32_t token = kNone;  // once it is a piece
  };

  uint32_t num_candidates() const { return static_cast<uint32_t>(candidates_.size()); }
  uint32_t length(uint32_t token) const { return line_.num_characters(token); }
  uint32_t length_of(const Candidate& c) const { return length(c.left) + length(c.right); }

  void cover_characters(const WordCounts& words, double coverage) {
    constexpr size_t kNumCodePoints = 0x110000;
    std::vector<int64_t> counts(kNumCodePoints);
    int64_t total = 0;
    for (const auto& [text, count] : words) {
      for_each_character(text, [&, n = count](char32_t c) {
        counts[c] += n;
        total += n;
      });
    }
    std::vector<char32_t> order;
    for (char32_t c = 0; c < kNumCodePoints; ++c) {
      if (counts[c] > 0) order.push_back(c);
    }
    std::stable_sort(order.begin(), order.end(),
                     [&](char32_t a, char32_t b) { return counts[a] > counts[b]; });
    token_of_.assign(kNumCodePoints, kNone);
    int64_t covered = 0;
    for (const char32_t c : order) {
      if (static_cast<double>(covered) >= coverage * static_cast<double>(total)) break;
      covered += counts[c];
      append_utf8(characters_.emplace_back(), c);
      const uint32_t token = token_of_[c] = line_.add_kind(1);
      tokens_.push_back({characters_.back(), mix64(c), token, c == ' ' ? 1U : 0U});
    }
  }

  void write_line(const WordCounts& words) {
    line_.append_words(words, [&](std::string_view text) {
      for_each_character(text, [&](char32_t c) {
        if (token_of_[c] == kNone) {
          line_.append_gap();
        } else {
          line_.append(token_of_[c]);
        }
      });
    });
    std::vector<uint32_t>().swap(token_of_);
  }

  void find_candidates() {
    uint32_t previous = kNone;
    for (uint32_t slot = 0; slot + 1 < line_.size(); ++slot) {
      const uint32_t id = candidate_of(line_.token_at(slot), line_.token_at(slot + 1));
      const bool overlaps = id != kNone && id == previous;
      previous = overlaps ? kNone : id;
      if (id == kNone) continue;
      if (!overlaps) candidates_[id].count += line_.weight_at(slot);
      places_.note(id, slot);
      if (places_.is_flush_due()) file_places();
    }
    file_places();
  }

  // Files the noted places, and queues their candidates.
  void file_places() {
    throw_if_stopped();
    const auto is_there = [&](uint32_t id, uint32_t slot) {
      return line_.has_pair(slot, length_of(candidates_[id]));
    };
    places_.flush(is_there,
                  [&](uint32_t id) { queue_.offer(id, candidates_[id].count, ComesAfter{*this}); });
  }

  // Returns the candidate that two neighbours spell, or kNone: it cannot be a piece, or a token is
  // kNone.
  uint32_t candidate_of(uint32_t left, uint32_t right) {
    if (left == kNone || right == kNone) return kNone;
    const Token& a = tokens_[left];
    const Token& b = tokens_[right];
    const uint32_t num_characters = length(left) + length(right);
    if (num_characters > kLongestLearned) return kNone;
    const uint32_t spaces = a.num_spaces + (a.num_spaces == length(left) ? b.num_spaces : 0);
    if (spaces > 1 && spaces < num_characters) return kNone;
    // FlatMap takes no key of all ones; the shift makes none.
    for (uint64_t key = (a.hash * powers_[length(right)] + b.hash) >> 1;; key = mix64(key) >> 1) {
      const uint64_t found = candidates_by_hash_.find(key);
      if (found == FlatMap::kNone) {
        candidates_by_hash_.insert(key, candidates_.size());
        candidates_.push_back({0, left, right, kNone});
        return num_candidates() - 1;
      }
      const Candidate& candidate = candidates_[found];
      if ((candidate.left == left && candidate.right == right) ||
          has_text(candidate, left, right)) {
        return static_cast<uint32_t>(found);
      }
    }
  }

  // The text of two tokens, in `buffer`. A character has up to 4 bytes.
  using Buffer = std::array<char, 4 * kLongestLearned>;
  std::string_view spell(uint32_t left, uint32_t right, Buffer& buffer) const {
    const std::string& a = tokens_[left].text;
    const std::string& b = tokens_[right].text;
    std::memcpy(buffer.data(), a.data(), a.size());
    std::memcpy(buffer.data() + a.size(), b.data(), b.size());
    return {buffer.data(), a.size() + b.size()};
  }
  bool has_text(const Candidate& candidate, uint32_t left, uint32_t right) const {
    Buffer x;
    Buffer y;
    return spell(candidate.left, candidate.right, x) == spell(left, right, y);
  }

  // Breaks ties of equal counts: fewer characters come first, then byte order decides.
  struct ComesAfter {
    const BpeTrainer& trainer;
    bool operator()(uint32_t a, uint32_t b) const {
      const Candidate& x = trainer.candidates_[a];
      const Candidate& y = trainer.candidates_[b];
      if (trainer.length_of(x) != trainer.length_of(y))
        return trainer.length_of(x) > trainer.length_of(y);
      Buffer x_text;
      Buffer y_text;
      return trainer.spell(x.left, x.right, x_text) > trainer.spell(y.left, y.right, y_text);
    }
  };

  // Makes a candidate a piece and joins its neighbours everywhere. A join can bring about another
  // way to spell an older piece ("ab"+"c" after "a"+"bc"); since the encoder joins it, so does the
  // trainer, the oldest piece first.
  void merge(uint32_t id) {
    Candidate& best = candidates_[id];
    best.token = line_.add_kind(length_of(best));
    best.count = 0;
    const Token& a = tokens_[best.left];
    const Token& b = tokens_[best.right];
    const uint32_t spaces = a.num_spaces + (a.num_spaces == length(best.left) ? b.num_spaces : 0);
    Token token{a.text + b.text, a.hash * powers_[length(best.right)] + b.hash, a.first, spaces};
    tokens_.push_back(std::move(token));
    joins_[best.token] = places_.take(id);
    while (!joins_.empty()) {
      auto oldest = joins_.extract(joins_.begin());
      std::vector<uint32_t>& slots = oldest.mapped();
      if (!std::is_sorted(slots.begin(), slots.end())) std::sort(slots.begin(), slots.end());
      run_ = {};
      line_.join(
          slots, oldest.key(), [&](uint32_t left, uint32_t right) { remove_pair(left, right); },
          [&](uint32_t left, uint32_t right, bool is_last) { add_pair(left, right, is_last); });
    }
    file_places();
  }

  // The count of `num_pairs` overlapping pairs in a row that join to the same text ("aaa"): of two
  // that overlap only one can be joined.
  static int64_t run_count(int64_t num_pairs) { return (num_pairs + 1) / 2; }

  void remove_pair(uint32_t left, uint32_t right) {
    const uint32_t id = candidate_of(line_.token_at(left), line_.token_at(right));
    if (id == kNone || candidates_[id].token != kNone) return;
    const int64_t before = run_before(left, right, id);
    const int64_t after = run_after(left, right, id);
    const int64_t fall = run_count(before + 1 + after) - run_count(before) - run_count(after);
    candidates_[id].count -= fall * line_.weight_at(left);
  }

  void add_pair(uint32_t left, uint32_t right, bool is_last) {
    const uint32_t id = candidate_of(line_.token_at(left), line_.token_at(right));
    if (id == kNone) return;
    Candidate& candidate = candidates_[id];
    if (candidate.token != kNone) {
      joins_[candidate.token].push_back(left);
      return;
    }
    const int64_t before = run_before(left, right, id);
    const int64_t after = is_last ? 0 : run_after(left, right, id);
    const int64_t rise = run_count(before + 1 + after) - run_count(before) - run_count(after);
    candidates_[id].count += rise * line_.weight_at(left);
    run_ = {id, left, before + 1};
    places_.note(id, left);
  }

  // Whether the pairs (a, b) and (b, c) can spell the same text, as far as lengths and first
  // characters tell.
  bool may_repeat(uint32_t a, uint32_t b, uint32_t c) const {
    return length(a) == length(c) && tokens_[a].first == tokens_[b].first;
  }

  // How many pairs that join to `id` stand in a row before the pair (left, right), or after it.
  int64_t run_before(uint32_t left, uint32_t right, uint32_t id) {
    for (int64_t size = 0;; ++size, ++run_work_) {
      const uint32_t previous = line_.before(left);
      if (previous == kNone || line_.is_fresh(previous)) return size;
      if (previous == run_.left && id == run_.id) return size + run_.size;
      const uint32_t token = line_.token_at(left);
      const uint32_t token_before = line_.token_at(previous);
      if (!may_repeat(token_before, token, line_.token_at(right))) return size;
      if (candidate_of(token_before, token) != id) return size;
      right = std::exchange(left, previous);
    }
  }
  int64_t run_after(uint32_t left, uint32_t right, uint32_t id) {
    for (int64_t size = 0;; ++size, ++run_work_) {
      const uint32_t next = line_.after(right);
      if (next == kNone || line_.is_fresh(next)) return size;
      const uint32_t token = line_.token_at(right);
      const uint32_t token_after = line_.token_at(next);
      if (!may_repeat(line_.token_at(left), token, token_after)) return size;
      if (candidate_of(token, token_after) != id) return size;
      left = std::exchange(right, next);
    }
  }

  // The run of pairs up to the last added pair, so that no long run is walked again for each pair.
  struct Run {
    uint32_t id = kNone;
    uint32_t left = kNone;  // slot of its last pair
    int64_t size = 0;
  };

  std::vector<std::string> characters_;
  std::vector<uint32_t> token_of_;  // by code point, until the line is written
  std::vector<Token> tokens_;
  std::vector<Candidate> candidates_;
  FlatMap candidates_by_hash_;
  std::array<uint64_t, kLongestLearned + 1> powers_{};  // of kBase
  TokenLine line_;
  PairPlaces places_;
  PairQueue queue_;
  std::map<uint32_t, std::vector<uint32_t>> joins_;  // still to be done: slots by token
  Run run_;
  uint64_t run_work_ = 0;
};

}  // namespace

BpePieces train_bpe(WordCounts words, int64_t budget, double coverage, uint64_t* work,
                    int64_t least_merges) {
  BpeTrainer trainer(std::move(words), coverage);
  BpePieces pieces;
  pieces.characters = trainer.characters();
  const int64_t rest = budget - static_cast<int64_t>(pieces.characters.size());
  pieces.merges = trainer.learn(std::max(rest, least_merges));
  if (work != nullptr) *work = trainer.work();
  return pieces;
}

}  // namespace lmtrain
