#include "tokenizer/byte_bpe.h"

#include <algorithm>
#include <bit>

#include "base/error.h"
#include "base/text.h"
#include "base/utf8.h"

namespace lmtrain {
namespace {

bool is_cached(std::string_view word) { return word.size() <= WordCache::kLongestWord; }

// Returns the size of the character that begins with `lead`, which is no continuation byte.
size_t size_of_character(char lead) {
  const auto byte = static_cast<unsigned char>(lead);
  return byte < 0x80 ? 1 : byte < 0xE0 ? 2 : byte < 0xF0 ? 3 : 4;
}

// Returns the size of the byte at `begin` and the continuation bytes behind it.
size_t run_size(std::string_view text, size_t begin) {
  size_t end = begin + 1;
  while (end < text.size() && is_utf8_continuation(text[end])) ++end;
  return end - begin;
}

// Returns the bytes of a character, at most four, as one number.
uint64_t code_of(std::string_view text, size_t begin, size_t size) {
  uint64_t code = 0;
  for (size_t i = 0; i < size; ++i) code = code << 8 | static_cast<unsigned char>(text[begin + i]);
  return code;
}

}  // namespace

CutPlaces::CutPlaces(const BpeModel& model) : bytes_((size_t{1} << 16) / 64) {
  std::vector<uint64_t> pairs;
  const auto add_bytes = [&](unsigned char left, unsigned char right) {
    bytes_[(size_t{left} << 8 | right) / 64] |= uint64_t{1} << right % 64;
  };
  const auto add_token = [&](std::string_view token) {
    size_t left = 0;
    for (size_t place = 1; place < token.size(); ++place) {
      if (is_utf8_continuation(token[place])) continue;
      const size_t left_size = place - left;
      const size_t right_size = run_size(token, place);
      const bool has_left = !is_utf8_continuation(token[left]);
      const size_t whole_right = size_of_character(token[place]);
      // In text the right character may go on behind the token; the left one may begin before it.
      const bool goes_on = right_size < whole_right && place + right_size == token.size();
      if (!has_left || goes_on || (left_size == 1 && right_size == 1)) {
        add_bytes(static_cast<unsigned char>(token[place - 1]),
                  static_cast<unsigned char>(token[place]));
      } else if (left_size == size_of_character(token[left]) && right_size == whole_right) {
        pairs.push_back(code_of(token, left, left_size) << 32 | code_of(token, place, right_size));
      }
      left = place;
    }
  };
  for (const BpeModel::Merge& merge : model.merges) {
    // A merge whose token is in no word is never made.
    const auto& token = model.tokens[static_cast<size_t>(merge.joined)];
    if (token) add_token(*token);
  }
  std::sort(pairs.begin(), pairs.end());
  pairs.erase(std::unique(pairs.begin(), pairs.end()), pairs.end());
  characters_.resize(std::bit_ceil(10 * pairs.size() / 64 + 1));
  for (const uint64_t pair : pairs) {
    const uint64_t bit = hash_of(pair) & (64 * characters_.size() - 1);
    characters_[bit / 64] |= uint64_t{1} << bit % 64;
  }
}

size_t CutPlaces::part_size(std::string_view word) const {
  size_t left = 0;
  size_t left_size = run_size(word, 0);
  while (left + left_size < word.size()) {
    const size_t place = left + left_size;
    const size_t right_size = run_size(word, place);
    const bool are_whole = !is_utf8_continuation(word[left]) &&
                           left_size == size_of_character(word[left]) &&
                           right_size == size_of_character(word[place]);
    if (are_whole && !divides_character(word, place)) {
      if (left_size == 1 && right_size == 1) return place;
      const uint64_t pair = code_of(word, left, left_size) << 32 | code_of(word, place, right_size);
      const uint64_t bit = hash_of(pair) & (64 * characters_.size() - 1);
      if ((characters_[bit / 64] >> bit % 64 & 1) == 0) return place;
    }
    left = place;
    left_size = right_size;
  }
  return word.size();
}

ByteBpe::ByteBpe(const BpeModel& model)
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
    const BpeModel::Merge& merge = model.merges[rank];
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
  // A byte without a token is left out or <unk>, and its neighbours may be joined.
  if (std::ranges::none_of(byte_ids_, [](int32_t id) { return id < 0; })) {
    cuts_.emplace(model);
    find_characters(model);
  }
}

// A merge of a character with a neighbour comes later than the merges of the character's own bytes,
// unless a file is odd. So whole characters may be the symbols from the start: of two merges the
// one that comes first is the same.
void ByteBpe::find_characters(const BpeModel& model) {
  character_ids_.assign(size_t{1} << 16, -1);
  std::vector<char32_t> code_points(model.tokens.size(), 0);  // 0: the token is no such character
  std::vector<uint32_t> last_ranks(model.tokens.size(), 0);
  for (size_t id = 0; id < model.tokens.size(); ++id) {
    char32_t code_point = 0;
    if (!model.tokens[id] || model.tokens[id]->size() < 2 || model.tokens[id]->size() > 3) continue;
    const std::string& token = *model.tokens[id];
    if (decode_utf8(token, code_point) != token.size()) continue;
    std::vector<int32_t> symbols;
    for (const char byte : token) symbols.push_back(byte_ids_[static_cast<unsigned char>(byte)]);
    uint32_t last_rank = 0;
    while (symbols.size() > 1) {
      BpeJoin first = join(symbols[0], symbols[1]);
      const BpeJoin second = symbols.size() > 2 ? join(symbols[1], symbols[2]) : BpeJoin{};
      const size_t place = second.rank < first.rank ? 1 : 0;
      if (place == 1) first = second;
      if (first.rank == BpeJoin::kNone) break;
      last_rank = std::max(last_rank, first.rank);
      symbols[place] = first.symbol;
      symbols.erase(symbols.begin() + static_cast<std::ptrdiff_t>(place) + 1);
    }
    if (symbols.size() > 1 || symbols[0] != static_cast<int32_t>(id)) continue;
    code_points[id] = code_point;
    last_ranks[id] = last_rank;
    character_ids_[code_point] = static_cast<int32_t>(id);
  }
  for (size_t rank = 0; rank < model.merges.size(); ++rank) {
    for (const int32_t symbol : {model.merges[rank].left, model.merges[rank].right}) {
      const auto id = static_cast<size_t>(symbol);
      if (code_points[id] != 0 && last_ranks[id] >= rank) character_ids_[code_points[id]] = -1;
    }
  }
}

// Returns the size of the character at `begin` and stores its token in `id`; 0 where its bytes must
// be the symbols.
size_t ByteBpe::character_at(std::string_view word, size_t begin, int32_t& id) const {
  constexpr unsigned char kTwoBytes = 0xC2, kFourBytes = 0xF0;
  const auto lead = static_cast<unsigned char>(word[begin]);
  if (!cuts_ || lead < kTwoBytes || lead >= kFourBytes) return 0;
  const size_t size = run_size(word, begin);
  char32_t code_point = 0;
  if (size != size_of_character(word[begin]) ||
      decode_utf8(word.substr(begin, size), code_point) != size)
    return 0;
  id = character_ids_[code_point];
  const size_t end = begin + size;
  const bool is_apart = (begin == 0 || !cuts_->divides_character(word, begin)) &&
                        (end == word.size() || !cuts_->divides_character(word, end));
  return id >= 0 && is_apart ? size : 0;
}

void ByteBpe::encode_words(const PreTokenizer::Batch& batch, Scratch& scratch,
                           IdBuffer& ids) const {
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
    encode_new_word(word, batch.end, scratch);
    std::copy(scratch.ids_.begin(), scratch.ids_.end(), ids.room(scratch.ids_.size()));
    ids.advance(scratch.ids_.size());
    if (is_cached(word)) scratch.cache_.insert(word, keys[i], scratch.ids_);
  }
}

// Leaves the ids in scratch.ids_.
void ByteBpe::encode_new_word(std::string_view word, const char* end, Scratch& scratch) const {
  // Most alphabets have few letters, and tokens join nearly all pairs: their words are not cut.
  constexpr size_t kLong = 15;
  constexpr unsigned char kThreeBytes = 0xE0;
  scratch.ids_.clear();
  if (const int32_t id = whole_words_.find(word); id != StringIds::kNone) {
    scratch.ids_.push_back(id);
  } else if (cuts_ && word.size() > kLong &&
             (word.size() > kFewBytes || static_cast<unsigned char>(word.front()) >= kThreeBytes)) {
    encode_parts(word, end, scratch);
  } else {
    encode_part(word, scratch);
  }
}

// Appends the ids of a word to scratch.ids_, part by part.
void ByteBpe::encode_parts(std::string_view word, const char* end, Scratch& scratch) const {
  // A part may be the text of a whole word that has other ids.
  WordCache& cache = whole_words_.size() > 0 ? scratch.part_cache_ : scratch.cache_;
  constexpr size_t kAtOnce = 32;
  std::array<std::string_view, kAtOnce> parts;
  std::array<WordCache::Key, kAtOnce> keys;
  while (!word.empty()) {
    // The memory that the cache needs for one part is fetched while the others are cut.
    size_t count = 0;
    for (; count < kAtOnce && !word.empty(); ++count) {
      parts[count] = word.substr(0, cuts_->part_size(word));
      word.remove_prefix(parts[count].size());
      if (is_cached(parts[count])) keys[count] = cache.key(parts[count], end);
    }
    for (size_t i = 0; i < count; ++i) {
      const size_t before = scratch.ids_.size();
      if (is_cached(parts[i])) {
        scratch.ids_.resize(before + WordCache::kMostIds);
        const size_t found = cache.find(parts[i], keys[i], scratch.ids_.data() + before);
        scratch.ids_.resize(before + found);
        if (found > 0) continue;
      }
      encode_part(parts[i], scratch);
      if (is_cached(parts[i]))
        cache.insert(parts[i], keys[i], std::span(scratch.ids_).subspan(before));
    }
  }
}

// Appends the ids of a word without places for a cut to scratch.ids_.
void ByteBpe::encode_part(std::string_view word, Scratch& scratch) const {
  if (word.size() <= kFewBytes && encode_few_bytes(word, scratch.ids_)) return;
  if (word.size() >= BpeMerge::kEnd) {
    throw Error(ErrorKind::kData, str("a document has ", word.size(),
                                      " bytes without a place where the tokenizer cuts it; split "
                                      "it into several documents"));
  }
  BpeMerge& merge = scratch.merge_;
  merge.clear();
  bool after_unk = false;
  for (size_t i = 0, size = 0; i < word.size(); i += std::max<size_t>(size, 1)) {
    int32_t id = -1;
    size = character_at(word, i, id);
    if (size == 0) id = byte_ids_[static_cast<unsigned char>(word[i])];
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
    symbols[best] = joined_[ranks[best]];
    --size;
    for (size_t i = best + 1; i < size; ++i) {
      symbols[i] = symbols[i + 1];
      ranks[i] = ranks[i + 1];
    }
    ranks[best] = best + 1 < size ? join(symbols[best], symbols[best + 1]).rank : BpeJoin::kNone;
    if (best > 0) ranks[best - 1] = join(symbols[best - 1], symbols[best]).rank;
  }
  ids.insert(ids.end(), symbols.begin(), symbols.begin() + static_cast<std::ptrdiff_t>(size));
  return true;
}

}  // namespace lmtrain
