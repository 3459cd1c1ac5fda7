#include "tokenizer/text_normalizer.h"

#include <algorithm>
#include <vector>

#include "base/utf8.h"

namespace lmtrain {
namespace {

std::vector<ByteTrie::Entry> user_defined_of(const SentencePieceModel& model) {
  std::vector<ByteTrie::Entry> symbols;
  for (const ModelPiece& piece : model.pieces) {
    if (piece.type == PieceType::kUserDefined) symbols.push_back({piece.text, 0});
  }
  return symbols;
}

std::string_view table_of(const SentencePieceModel& model) {
  // The last one counts, as in protobuf.
  std::string_view bytes;
  for (const ModelTable& table : model.tables) {
    if (table.name == "normalizer_spec") bytes = table.bytes;
  }
  return bytes;
}

}  // namespace

std::string with_spaces(std::string_view piece) {
  std::string text;
  for (size_t offset = 0; (offset = piece.find(kSpaceMark)) != std::string_view::npos;) {
    text.append(piece.substr(0, offset)).push_back(' ');
    piece.remove_prefix(offset + kSpaceMark.size());
  }
  return text.append(piece);
}

TextNormalizer::TextNormalizer(const SentencePieceModel& model)
    : user_defined_(user_defined_of(model)),
      table_(table_of(model)),
      has_prefix_(model.adds_prefix),
      prefix_is_suffix_(model.space_is_suffix),
      removes_spaces_(model.removes_spaces),
      escapes_spaces_(model.escapes_spaces) {}

std::string_view TextNormalizer::normalize(std::string_view text, bool adds_prefix,
                                           std::string& buffer) const {
  adds_prefix = adds_prefix && has_prefix_;
  const bool is_normal = table_.empty() && !removes_spaces_ && is_utf8(text) &&
                         (!escapes_spaces_ || text.find(kSpaceMark) == std::string_view::npos);
  if (is_normal && (!adds_prefix || text.empty())) return text;
  buffer.clear();
  size_t size = 0;
  if (removes_spaces_) {
    while (!text.empty() && next(text, size) == " ") text.remove_prefix(size);
  }
  if (text.empty()) return text;
  if (adds_prefix && !prefix_is_suffix_) buffer += ' ';
  if (is_normal) {
    buffer += text;
  } else {
    bool after_space = removes_spaces_;
    while (!text.empty()) {
      std::string_view replaced = next(text, size);
      text.remove_prefix(size);
      if (after_space)
        replaced.remove_prefix(std::min(replaced.find_first_not_of(' '), replaced.size()));
      if (replaced.empty()) continue;
      append(replaced, buffer);
      after_space = removes_spaces_ && replaced.back() == ' ';
    }
    if (removes_spaces_) buffer.resize(buffer.find_last_not_of(' ') + 1);
  }
  if (adds_prefix && prefix_is_suffix_) buffer += ' ';
  return buffer;
}

// Sets `size`, and returns the normal form of the first `size` bytes of `text`.
std::string_view TextNormalizer::next(std::string_view text, size_t& size) const {
  size = user_defined_.empty() ? 0 : user_defined_.longest(text);
  if (size > 0) return text.substr(0, size);
  std::string_view replaced;
  size = table_.find(text, replaced);
  if (size > 0) return replaced;
  char32_t code_point = 0;
  size = decode_utf8(text, code_point);
  if (size > 0) return text.substr(0, size);
  size = 1;
  return "\uFFFD";  // for a malformed byte
}

void TextNormalizer::append(std::string_view text, std::string& buffer) const {
  if (escapes_spaces_ && text.find(kSpaceMark) != std::string_view::npos) {
    buffer += with_spaces(text);
  } else {
    buffer += text;
  }
}

}  // namespace lmtrain
