#include "tokenizer/bpe_table.h"

#include <algorithm>
#include <set>

#include "base/text.h"
#include "base/utf8.h"
#include "tokenizer/text_normalizer.h"
#include "tokenizer/text_steps.h"

namespace lmtrain {
namespace {

// Keeps the table of a model file of any content small: a piece is split in every way.
constexpr size_t kLongestPiece = 256;

// sentencepiece never sees a space, which is U+2581 by then, nor a malformed byte, which is U+FFFD.
bool is_reachable(const ModelPiece& piece) {
  return piece.text.find(' ') == std::string::npos && is_utf8(piece.text);
}

// sentencepiece looks a text up among unknown, control and byte pieces first.
bool hides_a_piece(const ModelPiece& piece, const std::set<std::string_view>& texts) {
  if (piece.is_in_text()) return false;
  char32_t code_point = 0;
  const size_t size = decode_utf8(piece.text, code_point);
  return size == piece.text.size() || texts.count(piece.text) > 0;
}

}  // namespace

std::optional<std::string> why_not_exact(const SentencePieceModel& model) {
  if (model.type != ModelType::kBpe) return "it is not a BPE model";
  if (!model.escapes_spaces) return "it leaves spaces as they are";
  std::set<std::string_view> texts;
  for (const ModelPiece& piece : model.pieces) {
    if (piece.type == PieceType::kUnused) return "it has unused pieces";
    if (piece.text.size() > kLongestPiece) return str("a piece has ", piece.text.size(), " bytes");
    if (piece.type == PieceType::kUserDefined) {
      const bool has_space = piece.text.find(' ') != std::string::npos;
      if (piece.text.find('\0') != std::string::npos || !is_utf8(piece.text) ||
          (model.removes_spaces && has_space)) {
        return "a user-defined symbol holds a space, a NUL or a malformed byte";
      }
    }
    if (piece.is_in_text()) texts.insert(piece.text);
  }
  for (const ModelPiece& piece : model.pieces) {
    if (hides_a_piece(piece, texts)) return str("its piece ", piece.text, " hides another");
  }
  return std::nullopt;
}

BpeTable::BpeTable(const SentencePieceModel& model) : has_bytes_(model.byte_fallback) {
  ascii_.fill(kUnknown);
  std::vector<float> scores;
  std::vector<ByteTrie::Entry> entries;
  for (size_t i = 0; i < model.pieces.size(); ++i) {
    const ModelPiece& piece = model.pieces[i];
    const auto id = static_cast<int32_t>(i);
    if (piece.type == PieceType::kUnknown) unk_id_ = id;
    if (piece.type == PieceType::kByte) byte_ids_[fallback_byte(piece.text).value()] = id;
    if (!piece.is_in_text() || !is_reachable(piece)) continue;
    const std::string text = with_spaces(piece.text);
    const Symbol symbol = symbol_of(text);
    ids_[static_cast<size_t>(symbol)] = id;
    scores.push_back(piece.score);
    add_characters(text);
    if (piece.type == PieceType::kUserDefined) entries.push_back({text, symbol});
  }
  user_defined_ = ByteTrie(std::move(entries));
  // Equal scores have equal ranks: then the leftmost pair is joined first.
  std::sort(scores.begin(), scores.end(), std::greater<>());
  scores.erase(std::unique(scores.begin(), scores.end()), scores.end());
  for (const ModelPiece& piece : model.pieces) {
    if (!piece.is_in_text() || !is_reachable(piece)) continue;
    const auto found =
        std::lower_bound(scores.begin(), scores.end(), piece.score, std::greater<>());
    add_joins(with_spaces(piece.text), static_cast<uint32_t>(found - scores.begin()));
  }
  symbols_ = {};
}

BpeTable::Symbol BpeTable::symbol_of(const std::string& text) {
  const auto [entry, is_new] = symbols_.emplace(text, static_cast<Symbol>(ids_.size()));
  if (is_new) ids_.push_back(-1);
  return entry->second;
}

void BpeTable::add_characters(std::string_view text) {
  char32_t before = 0;
  for (size_t begin = 0; begin < text.size();) {
    char32_t code_point = 0;
    const size_t size = decode_utf8(text.substr(begin), code_point);
    const Symbol symbol = symbol_of(std::string(text.substr(begin, size)));
    if (code_point < 128) {
      ascii_[code_point] = symbol;
    } else {
      characters_.insert(code_point, static_cast<uint64_t>(symbol));
    }
    if (begin > 0 && before < 128 && code_point < 128) {
      ascii_joins_[before][code_point / 64] |= uint64_t{1} << (code_point % 64);
    } else if (begin > 0) {
      joins_.insert(uint64_t{before} << 32 | code_point, 1);
    }
    before = code_point;
    begin += size;
  }
}

void BpeTable::add_joins(std::string_view text, uint32_t rank) {
  const auto whole = static_cast<uint64_t>(symbols_.at(std::string(text)));
  for (size_t middle = 1; middle < text.size(); ++middle) {
    const auto left = symbols_.find(std::string(text.substr(0, middle)));
    if (left == symbols_.end()) continue;
    const auto right = symbols_.find(std::string(text.substr(middle)));
    if (right == symbols_.end()) continue;
    pairs_.insert(
        uint64_t{static_cast<uint32_t>(left->second)} << 32 | static_cast<uint32_t>(right->second),
        uint64_t{rank} << 32 | whole);
  }
}

}  // namespace lmtrain
