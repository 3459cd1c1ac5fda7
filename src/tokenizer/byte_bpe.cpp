#include "tokenizer/byte_bpe.h"

#include "base/error.h"
#include "base/text.h"

namespace lmtrain {

ByteBpe::ByteBpe(const ByteBpeModel& model) : unk_id_(model.unk_id), fuses_unk_(model.fuses_unk) {
  byte_ids_.fill(-1);
  for (size_t id = 0; id < model.tokens.size(); ++id) {
    const std::optional<std::string>& token = model.tokens[id];
    if (!token || token->empty()) continue;
    if (token->size() == 1) {
      byte_ids_[static_cast<unsigned char>(token->front())] = static_cast<int32_t>(id);
    }
    if (model.ignores_merges) whole_words_.emplace(*token, static_cast<int32_t>(id));
  }
  for (size_t rank = 0; rank < model.merges.size(); ++rank) {
    const ByteBpeModel::Merge& merge = model.merges[rank];
    pairs_.insert(
        uint64_t{static_cast<uint32_t>(merge.left)} << 32 | static_cast<uint32_t>(merge.right),
        uint64_t{rank} << 32 | static_cast<uint32_t>(merge.joined));
  }
}

void ByteBpe::encode_word(std::string_view word, Scratch& scratch,
                          std::vector<int32_t>& ids) const {
  if (word.size() > WordCache::kLongestWord) {
    encode_new_word(word, scratch);
    ids.insert(ids.end(), scratch.ids_.begin(), scratch.ids_.end());
    return;
  }
  const uint64_t hash = WordCache::hash(word);
  const std::span<const int32_t> found = scratch.cache_.find(word, hash);
  if (!found.empty()) {
    ids.insert(ids.end(), found.begin(), found.end());
    return;
  }
  encode_new_word(word, scratch);
  ids.insert(ids.end(), scratch.ids_.begin(), scratch.ids_.end());
  scratch.cache_.insert(word, hash, scratch.ids_);
}

// Leaves the ids in scratch.ids_.
void ByteBpe::encode_new_word(std::string_view word, Scratch& scratch) const {
  scratch.ids_.clear();
  if (!whole_words_.empty()) {
    if (const auto found = whole_words_.find(word); found != whole_words_.end()) {
      scratch.ids_.push_back(found->second);
      return;
    }
  }
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

}  // namespace lmtrain
