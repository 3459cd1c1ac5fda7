#include "tokenizer/bpe_encoder.h"

#include "base/utf8.h"
#include "tokenizer/uncut_text.h"

namespace lmtrain {
namespace {

constexpr uint32_t kEnd = BpeMerge::kEnd;

}  // namespace

BpeEncoder::BpeEncoder(const SentencePieceModel& model) : normalizer_(model), table_(model) {}

void BpeEncoder::encode(std::string_view text, Scratch& scratch, std::vector<int32_t>& ids,
                        bool adds_prefix) const {
  ids.clear();
  text = normalizer_.normalize(text, adds_prefix, scratch.text_);
  // A word ends at the first boundary across which no piece reaches.
  encode_by_words(
      text, scratch.cache_,
      [&](char32_t before, char32_t next) { return !table_.joins(before, next); },
      [&](std::string_view word) -> std::span<const int32_t> {
        encode_word(word, scratch);
        return scratch.ids_;
      },
      [&](std::span<const int32_t> more) { add_ids(more, ids); });
}

// Leaves the ids of the word in scratch.ids_.
void BpeEncoder::encode_word(std::string_view word, Scratch& scratch) const {
  if (word.size() >= kEnd) fail_uncut(word.size());
  BpeMerge& merge = scratch.merge_;
  split(word, merge);
  merge.merge(table_);
  scratch.ids_.clear();
  for (uint32_t i = 0; i != kEnd; i = merge.node(i).next) {
    const BpeMerge::Node& node = merge.node(i);
    const int32_t id = node.symbol == BpeTable::kUnknown ? -1 : table_.id(node.symbol);
    if (id >= 0) {
      scratch.ids_.push_back(id);
    } else if (table_.has_bytes()) {
      const size_t end = node.next == kEnd ? word.size() : merge.node(node.next).begin;
      const std::string_view text = word.substr(node.begin, end - node.begin);
      for (const char byte : text == " " ? kSpaceMark : text)
        scratch.ids_.push_back(table_.byte_id(static_cast<unsigned char>(byte)));
    } else {
      scratch.ids_.push_back(table_.unk_id());
    }
  }
}

void BpeEncoder::split(std::string_view word, BpeMerge& merge) const {
  merge.clear();
  for (size_t begin = 0; begin < word.size();) {
    BpeTable::Symbol symbol = BpeTable::kUnknown;
    size_t size = table_.user_defined(word.substr(begin), symbol);
    const bool is_fixed = size > 0;
    if (!is_fixed) {
      char32_t code_point = 0;
      size = decode_utf8(word.substr(begin), code_point);
      symbol = table_.character(code_point);
    }
    merge.add(symbol, is_fixed, static_cast<uint32_t>(begin));
    begin += size;
  }
}

// Without bytes to fall back on, sentencepiece writes a run of unknown pieces as one.
void BpeEncoder::add_ids(std::span<const int32_t> more, std::vector<int32_t>& ids) const {
  if (table_.has_bytes()) {
    ids.insert(ids.end(), more.begin(), more.end());
    return;
  }
  for (const int32_t id : more) {
    if (id != table_.unk_id() || ids.empty() || ids.back() != id) ids.push_back(id);
  }
}

}  // namespace lmtrain
