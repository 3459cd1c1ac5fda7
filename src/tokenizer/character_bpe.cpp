#include "tokenizer/character_bpe.h"

#include <algorithm>

#include "base/utf8.h"
#include "tokenizer/text_steps.h"
#include "tokenizer/uncut_text.h"

namespace lmtrain {

CharacterBpe::CharacterBpe(const BpeModel& model)
    : ranks_(model.merges), unk_id_(model.unk_id), fuses_unk_(model.fuses_unk) {
  ascii_ids_.fill(-1);
  byte_ids_.fill(-1);
  for (size_t i = 0; i < model.tokens.size(); ++i) {
    if (!model.tokens[i]) continue;
    const std::string& token = *model.tokens[i];
    const auto id = static_cast<int32_t>(i);
    char32_t character = 0;
    if (!token.empty() && decode_utf8(token, character) == token.size()) {
      if (character < 128) {
        ascii_ids_[character] = id;
      } else {
        character_ids_.insert(character, i);
      }
    }
    // Only capital digits spell a byte, as the library writes them.
    if (const auto byte = fallback_byte(token);
        byte && model.byte_fallback && token == fallback_token(*byte))
      byte_ids_[*byte] = id;
    if (model.ignores_merges) whole_words_.add(token, id);
  }
  has_all_bytes_ =
      std::none_of(byte_ids_.begin(), byte_ids_.end(), [](int32_t id) { return id < 0; });
  std::vector<bool> stands_for_others(model.tokens.size(), false);
  for (const int32_t id : byte_ids_) {
    if (id >= 0) stands_for_others[static_cast<size_t>(id)] = true;
  }
  if (unk_id_) stands_for_others[static_cast<size_t>(*unk_id_)] = true;
  for (const BpeModel::Merge& merge : model.merges) {
    if (stands_for_others[static_cast<size_t>(merge.left)] ||
        stands_for_others[static_cast<size_t>(merge.right)])
      cuts_ = false;
    add_neighbours(*model.tokens[static_cast<size_t>(merge.joined)]);
  }
}

void CharacterBpe::add_neighbours(std::string_view token) {
  char32_t before = 0;
  size_t size = decode_utf8(token, before);
  while (token.remove_prefix(size), !token.empty()) {
    char32_t next = 0;
    size = decode_utf8(token, next);
    if (before < 128 && next < 128) {
      ascii_neighbours_[before][next / 64] |= uint64_t{1} << (next % 64);
    } else {
      neighbours_.insert(uint64_t{before} << 32 | next, 1);
    }
    before = next;
  }
}

int32_t CharacterBpe::id_of(char32_t character) const {
  if (character < 128) return ascii_ids_[character];
  const uint64_t found = character_ids_.find(character);
  return found == FlatMap::kNone ? -1 : static_cast<int32_t>(found);
}

// A part never begins with an unknown character: one <unk> may stand for it and the ones before.
bool CharacterBpe::may_cut(char32_t before, char32_t next) const {
  if (!cuts_) return false;
  const bool are_neighbours =
      before < 128 && next < 128
          ? (ascii_neighbours_[before][next / 64] >> (next % 64) & 1U) != 0
          : neighbours_.find(uint64_t{before} << 32 | next) != FlatMap::kNone;
  return !are_neighbours && (has_all_bytes_ || id_of(next) >= 0);
}

void CharacterBpe::encode_word(std::string_view word, Scratch& scratch,
                               std::vector<int32_t>& ids) const {
  if (const int32_t id = whole_words_.find(word); id != StringIds::kNone) {
    ids.push_back(id);
    return;
  }
  encode_by_words(
      word, scratch.cache_, [&](char32_t before, char32_t next) { return may_cut(before, next); },
      [&](std::string_view part) -> std::span<const int32_t> {
        encode_part(part, scratch);
        return scratch.ids_;
      },
      [&](std::span<const int32_t> more) { ids.insert(ids.end(), more.begin(), more.end()); });
}

// Adds the tokens of the bytes of a character; returns false where a byte has none.
bool CharacterBpe::add_bytes(std::string_view character, BpeMerge& merge) const {
  const auto id = [&](char byte) { return byte_ids_[static_cast<unsigned char>(byte)]; };
  if (std::any_of(character.begin(), character.end(), [&](char byte) { return id(byte) < 0; }))
    return false;
  for (const char byte : character) merge.add(id(byte));
  return true;
}

// Leaves the ids in scratch.ids_.
void CharacterBpe::encode_part(std::string_view part, Scratch& scratch) const {
  if (part.size() >= BpeMerge::kEnd) fail_uncut(part.size());
  BpeMerge& merge = scratch.merge_;
  merge.clear();
  scratch.ids_.clear();
  // <unk> waits for the next known character, also behind bytes, as in the library.
  size_t waiting = 0;
  const auto add_waiting = [&] {
    for (; waiting > 0; --waiting) merge.add(*unk_id_);
  };
  bool is_empty = true;
  while (!part.empty()) {
    char32_t character = 0;
    const size_t size = decode_utf8(part, character);
    if (const int32_t id = id_of(character); id >= 0) {
      add_waiting();
      merge.add(id);
      is_empty = false;
    } else if (add_bytes(part.substr(0, size), merge)) {
      is_empty = false;
    } else if (unk_id_) {
      if (!fuses_unk_) add_waiting();
      waiting = 1;
      is_empty = false;
    }
    part.remove_prefix(size);
  }
  if (is_empty) return;  // as in the library: characters without a token are lost
  add_waiting();
  merge.merge(ranks_);
  for (uint32_t i = 0; i != BpeMerge::kEnd; i = merge.node(i).next)
    scratch.ids_.push_back(merge.node(i).symbol);
}

}  // namespace lmtrain
