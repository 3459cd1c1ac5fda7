#include "tokenizer/unigram_encoder.h"

#include <algorithm>
#include <cfloat>
#include <cmath>

#include "base/text.h"
#include "tokenizer/text_steps.h"
#include "tokenizer/uncut_text.h"

namespace lmtrain {
namespace {

constexpr float kUnknownPenalty = 10;
constexpr float kLargestScore = 100'000;
// Keeps the trie of a model file of any content small: it takes some 20 bytes for each.
constexpr size_t kMostBytes = size_t{16} << 20;

// Prefers user-defined symbols to learned pieces, whose scores are not above 0, and longer symbols
// to shorter ones.
float user_defined_score(size_t size) {
  return static_cast<float>(0.1 * static_cast<double>(static_cast<int>(size) - 1));
}

std::vector<ByteTrie::Entry> entries_of(const SentencePieceModel& model) {
  std::vector<ByteTrie::Entry> entries;
  for (size_t id = 0; id < model.pieces.size(); ++id) {
    const ModelPiece& piece = model.pieces[id];
    if (!piece.is_in_text()) continue;
    // A text never holds a space of its own where spaces are spelled U+2581.
    if (model.escapes_spaces && piece.text.find(' ') != std::string::npos) continue;
    const float score =
        piece.type == PieceType::kUserDefined ? user_defined_score(piece.text.size()) : piece.score;
    entries.push_back({model.escapes_spaces ? with_spaces(piece.text) : piece.text,
                       static_cast<int32_t>(id), score});
  }
  return entries;
}

// The size of a valid character by its first byte.
size_t character_size(char first) {
  const auto byte = static_cast<unsigned char>(first);
  return byte < 0x80 ? 1 : byte < 0xE0 ? 2 : byte < 0xF0 ? 3 : 4;
}

// Makes scores relative to the one at `begin`, since large scores are rounded too much.
template <class Way>
void begin_anew(std::vector<Way>& ways, size_t begin) {
  const float offset = ways[begin].score;
  for (size_t i = begin; i < ways.size(); ++i) {
    if (i == begin || ways[i].id >= 0) ways[i].score -= offset;
  }
}

}  // namespace

std::optional<std::string> UnigramEncoder::why_not_exact(const SentencePieceModel& model) {
  if (model.type != ModelType::kUnigram) return "it is not a unigram model";
  size_t bytes = 0;
  for (const ModelPiece& piece : model.pieces) bytes += piece.text.size();
  if (bytes > kMostBytes) return str("its pieces have ", bytes, " bytes");
  return std::nullopt;
}

UnigramEncoder::UnigramEncoder(const SentencePieceModel& model)
    : normalizer_(model),
      pieces_(entries_of(model)),
      has_bytes_(model.byte_fallback),
      escapes_spaces_(model.escapes_spaces) {
  float least = FLT_MAX;
  for (size_t i = 0; i < model.pieces.size(); ++i) {
    const ModelPiece& piece = model.pieces[i];
    const auto id = static_cast<int32_t>(i);
    if (piece.type == PieceType::kNormal) least = std::min(least, piece.score);
    if (piece.type == PieceType::kUnknown) unk_id_ = id;
    if (piece.type == PieceType::kByte) byte_ids_[fallback_byte(piece.text).value()] = id;
  }
  unknown_score_ = least - kUnknownPenalty;
}

void UnigramEncoder::encode(std::string_view text, Scratch& scratch, std::vector<int32_t>& ids,
                            bool adds_prefix) const {
  text = normalizer_.normalize(text, adds_prefix, scratch.text_);
  std::vector<Scratch::Way>& ways = scratch.ways_;
  ways.assign(1, {});
  scratch.first_ = ids.size();
  const auto add_way = [&](size_t begin, size_t end, float score, int32_t id) {
    if (ways.size() <= end) ways.resize(end + 1);
    Scratch::Way& way = ways[end];
    const float sum = score + ways[begin].score;
    if (way.id < 0 || sum > way.score) way = {sum, id, static_cast<uint32_t>(begin)};
  };
  // `text` is the part without ids yet; no piece reaches across its beginning. The best ways to its
  // positions below ways.size() are known.
  for (size_t begin = 0; begin < text.size();) {
    if (begin >= UINT32_MAX - 4) fail_uncut(begin);
    if (std::abs(ways[begin].score) > kLargestScore) begin_anew(ways, begin);
    const size_t first_size = character_size(text[begin]);
    bool has_character = false;
    ByteTrie::Node node = ByteTrie::kRoot;
    for (size_t end = begin; end < text.size();) {
      node = pieces_.step(node, text[end]);
      if (node == ByteTrie::kNone) break;
      ++end;
      const int32_t id = pieces_.value(node);
      if (id < 0) continue;
      add_way(begin, end, pieces_.weight(node), id);
      has_character = has_character || end == begin + first_size;
    }
    if (!has_character) add_way(begin, begin + first_size, unknown_score_, unk_id_);
    begin += first_size;
    if (ways.size() == begin + 1) {
      close(text.substr(0, begin), scratch, ids);
      text.remove_prefix(begin);
      begin = 0;
    }
  }
}

// Appends the ids of the best way to the end of `text`, from which the next one goes on.
void UnigramEncoder::close(std::string_view text, Scratch& scratch,
                           std::vector<int32_t>& ids) const {
  std::vector<Scratch::Way>& ways = scratch.ways_;
  const float score = ways[text.size()].score;
  scratch.ids_.clear();
  for (size_t end = text.size(); end > 0;) {
    const Scratch::Way way = ways[end];
    if (way.id != unk_id_) {
      scratch.ids_.push_back(way.id);
    } else if (has_bytes_) {
      std::string_view unknown = text.substr(way.begin, end - way.begin);
      if (escapes_spaces_ && unknown == " ") unknown = kSpaceMark;
      for (size_t i = unknown.size(); i-- > 0;)
        scratch.ids_.push_back(byte_ids_[static_cast<unsigned char>(unknown[i])]);
    } else {
      scratch.ids_.push_back(unk_id_);
    }
    end = way.begin;
  }
  // A run of unknown characters is one piece.
  for (size_t i = scratch.ids_.size(); i-- > 0;) {
    const int32_t id = scratch.ids_[i];
    if (id == unk_id_ && !has_bytes_ && ids.size() > scratch.first_ && ids.back() == id) continue;
    ids.push_back(id);
  }
  ways.assign(1, {score, -1, 0});
}

}  // namespace lmtrain
