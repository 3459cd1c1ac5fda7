#include "tokenizer/byte_bpe.h"

#include <algorithm>
#include <bit>

#include "base/error.h"
#include "base/text.h"

namespace lmtrain {

ByteBpe::ByteBpe(const ByteBpeModel& model)
    : byte_ranks_(size_t{1} << 16, BpeJoin::kNone),
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
  pairs_.reserve(model.merges.size());
  // Ten bits a pair: small enough for the cache of a core, and most pairs of neighbours are none.
  filter_.resize(std::bit_ceil(10 * model.merges.size() / 64 + 1));
  joined_.reserve(model.merges.size());
  for (size_t rank = 0; rank < model.merges.size(); ++rank) {
    const ByteBpeModel::Merge& merge = model.merges[rank];
    joined_.push_back(merge.joined);
    const uint64_t pair =
        uint64_t{static_cast<uint32_t>(merge.left)} << 32 | static_cast<uint32_t>(merge.right);
    pairs_.insert(pair, uint64_t{rank} << 32 | static_cast<uint32_t>(merge.joined));
    const uint64_t bit = filter_bit(pair);
    filter_[bit / 64] |= uint64_t{1} << bit % 64;
    const int left = byte_of_id[static_cast<size_t>(merge.left)];
    const int right = byte_of_id[static_cast<size_t>(merge.right)];
    if (left >= 0 && right >= 0)
      byte_ranks_[static_cast<size_t>(left << 8 | right)] = static_cast<uint32_t>(rank);
  }
}

void ByteBpe::encode_words(const PreTokenizer::Batch& batch, Scratch& scratch,
                           IdBuffer& ids) const {
  const auto is_cached = [](std::string_view word) {
    return word.size() <= WordCache::kLongestWord;
  };
  // The memory that the cache needs for one word is fetched while the others are looked at.
  std::vector<WordCache::Key>& keys = scratch.keys_;
  keys.resize(std::max(keys.size(), batch.words.size()));
  for (size_t i = 0; i < batch.words.size(); ++i) {
    const std::string_view word = batch.words[i];
    if (is_cached(word)) keys[i] = scratch.cache_.key(word, batch.end);
  }
  for (size_t i = 0; i < batch.words.size(); ++i) {
    const std::string_view word = batch.words[i];
    if (is_cached(word)) {
      const size_t found = scratch.cache_.find(word, keys[i], ids.room(WordCache::kMostIds));
      ids.advance(found);
      if (found > 0) continue;
    }
    encode_new_word(word, scratch);
    std::copy(scratch.ids_.begin(), scratch.ids_.end(), ids.room(scratch.ids_.size()));
    ids.advance(scratch.ids_.size());
    if (is_cached(word)) scratch.cache_.insert(word, keys[i], scratch.ids_);
  }
}

// Leaves the ids in scratch.ids_.
void ByteBpe::encode_new_word(std::string_view word, Scratch& scratch) const {
  scratch.ids_.clear();
  if (const int32_t id = whole_words_.find(word); id != StringIds::kNone) {
    scratch.ids_.push_back(id);
    return;
  }
  if (word.size() <= kFewBytes && encode_few_bytes(word, scratch.ids_)) return;
  if (word.size() >= BpeMerge::kEnd) {
    throw Error(ErrorKind::kData, str("a document has ", word.size(),
                                      " bytes without a place where the tokenizer cuts it; split "
                                      "it into several documents"));
  }
  BpeMerge& merge = scratch.merge_;
  merge.clear();
  bool after_unk = false;
  for (size_t i = 0; i < word.size(); ++i) {
    const int32_t id = byte_ids_[static_cast<unsigned char>(word[i])];
    const bool is_unk = id < 0;
    if (is_unk && !unk_id_) continue;  // as in the library
    if (!(is_unk && after_unk && fuses_unk_)) {
      merge.add(is_unk ? *unk_id_ : id, /*is_fixed=*/false, static_cast<uint32_t>(i));
    }
    after_unk = is_unk;
  }
  merge.merge(*this);
  for (uint32_t i = 0; i != BpeMerge::kEnd; i = merge.node(i).next)
    scratch.ids_.push_back(merge.node(i).symbol);
}

// Joins the pair of the lowest rank until there is none; of equal ranks the leftmost. Returns
// false, with nothing done, where a byte has no token.
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
    symbols[best] = joined_[ranks[best]];
    --size;
    for (size_t i = best + 1; i < size; ++i) {
      symbols[i] = symbols[i + 1];
      ranks[i] = ranks[i + 1];
    }
    ranks[best] = best + 1 < size ? join(symbols[best], symbols[best + 1]).rank : BpeJoin::kNone;
    if (best > 0) ranks[best - 1] = join(symbols[best - 1], symbols[best]).rank;
  }
  ids.assign(symbols.begin(), symbols.begin() + static_cast<std::ptrdiff_t>(size));
  return true;
}

}  // namespace lmtrain
