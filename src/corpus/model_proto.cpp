#include "corpus/model_proto.h"

#include <array>
#include <bit>
#include <cstdint>
#include <cstdio>

namespace lmtrain {
namespace {

// ModelProto
constexpr uint64_t kPieces = 1;
constexpr uint64_t kTrainerSpec = 2;
constexpr uint64_t kNormalizerSpec = 3;
// SentencePiece
constexpr uint64_t kPiece = 1;
constexpr uint64_t kScore = 2;
constexpr uint64_t kType = 3;
enum PieceType : uint64_t { kNormal = 1, kUnknown = 2, kControl = 3, kByte = 6 };
// TrainerSpec
constexpr uint64_t kModelType = 3;
constexpr uint64_t kVocabSize = 4;
constexpr uint64_t kCharacterCoverage = 10;
constexpr uint64_t kAllowWhitespaceOnlyPieces = 26;
constexpr uint64_t kByteFallback = 35;
constexpr uint64_t kUnkId = 40;
constexpr uint64_t kBosId = 41;
constexpr uint64_t kEosId = 42;
constexpr uint64_t kPadId = 43;
constexpr uint64_t kUnigram = 1;
constexpr uint64_t kBpe = 2;
// NormalizerSpec
constexpr uint64_t kName = 1;
constexpr uint64_t kCharsMap = 2;
constexpr uint64_t kAddDummyPrefix = 3;
constexpr uint64_t kRemoveExtraWhitespaces = 4;
constexpr uint64_t kEscapeWhitespaces = 5;

constexpr std::string_view kSpaceMark = "\xE2\x96\x81";  // U+2581

class Message {
 public:
  Message& add_integer(uint64_t field, uint64_t value) {
    add_varint(field << 3);
    add_varint(value);
    return *this;
  }
  Message& add_float(uint64_t field, float value) {
    add_varint((field << 3) | 5U);
    const auto bits = std::bit_cast<uint32_t>(value);
    for (unsigned shift = 0; shift < 32; shift += 8) add_byte((bits >> shift) & 0xFFU);
    return *this;
  }
  Message& add_bytes(uint64_t field, std::string_view bytes) {
    add_varint((field << 3) | 2U);
    add_varint(bytes.size());
    bytes_ += bytes;
    return *this;
  }
  const std::string& bytes() const { return bytes_; }

 private:
  void add_byte(uint64_t byte) {
    bytes_.push_back(static_cast<char>(static_cast<unsigned char>(byte)));
  }
  void add_varint(uint64_t value) {
    for (; value >= 0x80; value >>= 7) add_byte(value | 0x80U);
    add_byte(value);
  }

  std::string bytes_;
};

// Walks over the fields of a message; stops at the first that is malformed.
class Fields {
 public:
  explicit Fields(std::string_view bytes) : rest_(bytes) {}

  bool next() {
    uint64_t tag = 0;
    if (!read_varint(tag)) return false;
    number_ = tag >> 3;
    switch (tag & 7U) {
      case 0:
        return read_varint(value_);
      case 1:
        return take(8);
      case 2: {
        uint64_t size = 0;
        return read_varint(size) && take(size);
      }
      case 5:
        return take(4);
      default:
        return false;
    }
  }

  uint64_t number() const { return number_; }
  uint64_t value() const { return value_; }
  std::string_view bytes() const { return bytes_; }

 private:
  bool read_varint(uint64_t& value) {
    value = 0;
    for (unsigned shift = 0; shift < 64 && !rest_.empty(); shift += 7) {
      const auto byte = static_cast<unsigned char>(rest_.front());
      rest_.remove_prefix(1);
      value |= static_cast<uint64_t>(byte & 0x7FU) << shift;
      if (byte < 0x80) return true;
    }
    return false;
  }

  bool take(uint64_t size) {
    if (size > rest_.size()) return false;
    bytes_ = rest_.substr(0, size);
    rest_.remove_prefix(size);
    return true;
  }

  std::string_view rest_;
  uint64_t number_ = 0;
  uint64_t value_ = 0;
  std::string_view bytes_;
};

// A space, in either spelling, after something else.
bool has_space_inside(std::string_view piece) {
  while (piece.starts_with(kSpaceMark)) piece.remove_prefix(kSpaceMark.size());
  return piece.find(kSpaceMark) != std::string_view::npos ||
         piece.find(' ') != std::string_view::npos;
}

// sentencepiece's spelling: every space is U+2581.
std::string with_space_marks(std::string_view text) {
  std::string marked;
  for (const char c : text) marked += c == ' ' ? kSpaceMark : std::string_view(&c, 1);
  return marked;
}

}  // namespace

std::string bpe_model(const BpePieces& pieces, bool byte_fallback, double coverage) {
  Message model;
  uint64_t num_pieces = 0;
  const auto add_piece = [&](std::string_view text, float score, PieceType type) {
    Message piece;
    piece.add_bytes(kPiece, text).add_float(kScore, score);
    if (type != kNormal) piece.add_integer(kType, type);
    model.add_bytes(kPieces, piece.bytes());
    ++num_pieces;
  };
  add_piece("<unk>", 0, kUnknown);
  add_piece("<s>", 0, kControl);
  add_piece("</s>", 0, kControl);
  for (unsigned byte = 0; byte < 256 && byte_fallback; ++byte) {
    std::array<char, 8> name{};
    std::snprintf(name.data(), name.size(), "<0x%02X>", byte);
    add_piece(name.data(), 0, kByte);
  }
  // The encoder joins the neighbours whose piece has the highest score: the order in which they
  // were learned.
  float score = 0;
  for (const auto* list : {&pieces.merges, &pieces.characters}) {
    for (const std::string& text : *list) add_piece(with_space_marks(text), score--, kNormal);
  }
  Message trainer;
  trainer.add_integer(kModelType, kBpe)
      .add_integer(kVocabSize, num_pieces)
      .add_float(kCharacterCoverage, static_cast<float>(coverage))
      .add_integer(kAllowWhitespaceOnlyPieces, 1)
      .add_integer(kByteFallback, byte_fallback ? 1 : 0)
      .add_integer(kUnkId, 0)
      .add_integer(kBosId, 1)
      .add_integer(kEosId, 2)
      .add_integer(kPadId, static_cast<uint64_t>(int64_t{-1}));
  Message normalizer;
  normalizer.add_bytes(kName, "identity")
      .add_bytes(kCharsMap, "")
      .add_integer(kAddDummyPrefix, 0)
      .add_integer(kRemoveExtraWhitespaces, 0)
      .add_integer(kEscapeWhitespaces, 1);
  model.add_bytes(kTrainerSpec, trainer.bytes()).add_bytes(kNormalizerSpec, normalizer.bytes());
  return model.bytes();
}

ModelTraits read_model_traits(std::string_view model) {
  uint64_t type = kUnigram;
  bool has_inner_space = false;
  // What holds where a field is absent.
  bool changes_text = false;
  bool adds_prefix = true;
  bool removes_spaces = true;
  for (Fields fields(model); fields.next();) {
    if (fields.number() == kPieces) {
      for (Fields piece(fields.bytes()); piece.next();) {
        if (piece.number() == kPiece)
          has_inner_space = has_inner_space || has_space_inside(piece.bytes());
      }
    } else if (fields.number() == kTrainerSpec) {
      for (Fields spec(fields.bytes()); spec.next();) {
        if (spec.number() == kModelType) type = spec.value();
      }
    } else if (fields.number() == kNormalizerSpec) {
      for (Fields spec(fields.bytes()); spec.next();) {
        if (spec.number() == kCharsMap) changes_text = !spec.bytes().empty();
        if (spec.number() == kAddDummyPrefix) adds_prefix = spec.value() != 0;
        if (spec.number() == kRemoveExtraWhitespaces) removes_spaces = spec.value() != 0;
      }
    }
  }
  return {type == kUnigram,
          type == kBpe && !has_inner_space && !changes_text && !adds_prefix && !removes_spaces};
}

}  // namespace lmtrain
