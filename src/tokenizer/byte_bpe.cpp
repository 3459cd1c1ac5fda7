#include "tokenizer/byte_bpe.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/hash.h"
#include "tokenizer/uncut_text.h"

namespace lmtrain {
namespace {

bool is_cached(std::string_view word) { return word.size() <= WordCache::kLongestWord; }

}  // namespace

ByteBpe::ByteBpe(BpeModel model)
    : byte_ranks_(size_t{1} << 16, BpeJoin::kNone),
      ranks_(model.merges),
      unk_id_(model.unk_id),
      fuses_unk_(model.fuses_unk) {
  byte_ids_.fill(-1);
  std::vector<int16_t> byte_of_id(model.tokens.size(), -1);
  for (size_t id = 0; id < model.tokens.size(); ++id) {
    const std::optional<std::string>& token = model.tokens[id];
    if (!token || token->empty()) continue;
    if (token->size() == 1) {
      const auto byte = static_cast<unsigned char>(token->front());
      byte_ids_[byte] = static_cast<int32_t>(id);
      byte_of_id[id] = byte;
    }
    if (model.ignores_merges) whole_words_.add(*token, static_cast<int32_t>(id));
  }
  for (size_t rank = 0; rank < model.merges.size(); ++rank) {
    const BpeModel::Merge& merge = model.merges[rank];
    const int left = byte_of_id[static_cast<size_t>(merge.left)];
    const int right = byte_of_id[static_cast<size_t>(merge.right)];
    if (left >= 0 && right >= 0)
      byte_ranks_[static_cast<size_t>(left << 8 | right)] = static_cast<uint32_t>(rank);
  }
  model_ = std::move(model);
}

const std::optional<BpeBacktracker>& ByteBpe::backtracker() const {
  std::call_once(has_backtracker_, [&] {
    std::vector<std::string_view> texts;
    for (const auto& token : model_.tokens) texts.push_back(token ? *token : std::string_view());
    std::vector<int32_t> bytes;
    std::copy_if(byte_ids_.begin(), byte_ids_.end(), std::back_inserter(bytes),
                 [](int32_t id) { return id >= 0; });
    backtracker_ = BpeBacktracker::of(texts, bytes, model_.merges, ranks_);
    model_ = {};  // last: where memory is short, the next call begins anew
  });
  return backtracker_;
}

void ByteBpe::encode_words(const PreTokenizer::Batch& batch, Scratch& scratch,
                           IdBuffer& ids) const {
  // The first lines of these words in the cache are fetched before the words are looked up. More
  // at once would wait for each other.
  constexpr size_t kAtOnce = 32;
  std::array<WordCache::Key, kAtOnce> keys;
  for (std::span<const std::string_view> rest = batch.words; !rest.empty();) {
    const std::span<const std::string_view> words = rest.first(std::min(kAtOnce, rest.size()));
    rest = rest.subspan(words.size());
    for (size_t i = 0; i < words.size(); ++i) {
      if (is_cached(words[i])) keys[i] = scratch.cache_.key(words[i], batch.end);
    }
    int32_t* begin = ids.room(words.size() * WordCache::kMostIds);
    int32_t* end = begin;
    for (size_t i = 0; i < words.size(); ++i) {
      const std::string_view word = words[i];
      const size_t found = is_cached(word) ? scratch.cache_.find(word, keys[i], end) : 0;
      end += found;
      if (found > 0) continue;
      ids.advance(static_cast<size_t>(end - begin));
      encode_missed_word(word, keys[i], scratch, ids);
      begin = ids.room((words.size() - i) * WordCache::kMostIds);
      end = begin;
    }
    ids.advance(static_cast<size_t>(end - begin));
  }
}

// Appends the ids of a word that the cache does not have. It is no part of encode_words(), so that
// the variables of that loop stay in registers.
__attribute__((noinline)) void ByteBpe::encode_missed_word(std::string_view word,
                                                           const WordCache::Key& key,
                                                           Scratch& scratch, IdBuffer& ids) const {
  encode_new_word(word, scratch);
  std::copy(scratch.ids_.begin(), scratch.ids_.end(), ids.room(scratch.ids_.size()));
  ids.advance(scratch.ids_.size());
  if (is_cached(word)) scratch.cache_.insert(word, key, scratch.ids_);
}

// Leaves the ids in scratch.ids_.
void ByteBpe::encode_new_word(std::string_view word, Scratch& scratch) const {
  constexpr size_t kLong = 16;
  const bool is_long = word.size() >= kLong && word.size() <= LongWordCache::kLongestWord;
  const uint64_t hash = is_long ? hash64(word) : 0;
  if (is_long) {
    if (const std::span<const int32_t> ids = scratch.long_words_.find(word, hash); !ids.empty()) {
      scratch.ids_.assign(ids.begin(), ids.end());
      return;
    }
  }
  scratch.ids_.clear();
  if (const int32_t id = whole_words_.find(word); id != StringIds::kNone) {
    scratch.ids_.push_back(id);
  } else {
    encode_symbols(word, scratch);
  }
  if (is_long && (!is_cached(word) || scratch.ids_.size() > WordCache::kMostIds))
    scratch.long_words_.insert(word, hash, scratch.ids_);
}

// Appends the ids of a word to scratch.ids_.
void ByteBpe::encode_symbols(std::string_view word, Scratch& scratch) const {
  // Characters of three bytes make words of many symbols.
  constexpr unsigned char kThreeBytes = 0xE0;
  const size_t few = static_cast<unsigned char>(word.front()) >= kThreeBytes ? 16 : kFewBytes;
  if (word.size() <= few && encode_few_bytes(word, scratch.ids_)) return;
  // The queue takes as long for so many bytes as making a BpeBacktracker.
  constexpr size_t kBytesOfQueue = size_t{1} << 18;
  if (scratch.bytes_of_queue_ >= kBytesOfQueue && backtracker() &&
      backtracker_->encode(word, scratch.backtracker_, scratch.ids_))
    return;
  scratch.bytes_of_queue_ += word.size();
  encode_by_queue(word, scratch);
}

// Does the same for words of any model.
void ByteBpe::encode_by_queue(std::string_view word, Scratch& scratch) const {
  if (word.size() >= BpeMerge::kEnd) fail_uncut(word.size());
  BpeMerge& merge = scratch.merge_;
  merge.clear();
  bool after_unk = false;
  for (const char byte : word) {
    const int32_t id = byte_ids_[static_cast<unsigned char>(byte)];
    const bool is_unk = id < 0;
    if (is_unk && !unk_id_) continue;  // as in the library
    if (!(is_unk && after_unk && fuses_unk_)) merge.add(is_unk ? *unk_id_ : id);
    after_unk = is_unk;
  }
  merge.merge(ranks_);
  for (uint32_t i = 0; i != BpeMerge::kEnd; i = merge.node(i).next)
    scratch.ids_.push_back(merge.node(i).symbol);
}

// Joins the pair of the lowest rank until there is none; of equal ranks the leftmost. Appends the
// ids to `ids`. Returns false, with nothing done, where a byte has no token.
bool ByteBpe::encode_few_bytes(std::string_view word, std::vector<int32_t>& ids) const {
  std::array<int32_t, kFewBytes> symbols{};
  std::array<uint32_t, kFewBytes> ranks{};  // of the join with the next symbol; the last has none
  size_t size = word.size();
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(word[i]); };
  for (size_t i = 0; i < size; ++i) {
    symbols[i] = byte_ids_[byte(i)];
    if (symbols[i] < 0) return false;
    ranks[i] = i + 1 < size ? byte_ranks_[size_t{byte(i)} << 8 | byte(i + 1)] : BpeJoin::kNone;
  }
  for (;;) {
    size_t best = 0;
    for (size_t i = 1; i < size; ++i) best = ranks[i] < ranks[best] ? i : best;
    if (ranks[best] == BpeJoin::kNone) break;
    symbols[best] = ranks_.joined(ranks[best]);
    --size;
    for (size_t i = best + 1; i < size; ++i) {
      symbols[i] = symbols[i + 1];
      ranks[i] = ranks[i + 1];
    }
    ranks[best] = best + 1 < size ? ranks_.rank(symbols[best], symbols[best + 1]) : BpeJoin::kNone;
    if (best > 0) ranks[best - 1] = ranks_.rank(symbols[best - 1], symbols[best]);
  }
  ids.insert(ids.end(), symbols.begin(), symbols.begin() + static_cast<std::ptrdiff_t>(size));
  return true;
}

}  // namespace lmtrain
