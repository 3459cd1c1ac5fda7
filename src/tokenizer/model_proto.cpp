#include "tokenizer/model_proto.h"

#include <bit>
#include <cstdint>

#include "base/bytes.h"
#include "tokenizer/text_steps.h"

namespace lmtrain {
namespace {

// ModelProto
constexpr uint64_t kPieces = 1;
constexpr uint64_t kTrainerSpec = 2;
constexpr uint64_t kNormalizerSpec = 3;
constexpr uint64_t kDenormalizerSpec = 5;
// SentencePiece
constexpr uint64_t kPiece = 1;
constexpr uint64_t kScore = 2;
constexpr uint64_t kType = 3;
// TrainerSpec
constexpr uint64_t kModelType = 3;
constexpr uint64_t kVocabSize = 4;
constexpr uint64_t kCharacterCoverage = 10;
constexpr uint64_t kTreatWhitespaceAsSuffix = 24;
constexpr uint64_t kAllowWhitespaceOnlyPieces = 26;
constexpr uint64_t kByteFallback = 35;
constexpr uint64_t kUnkId = 40;
constexpr uint64_t kBosId = 41;
constexpr uint64_t kEosId = 42;
constexpr uint64_t kPadId = 43;
// NormalizerSpec
constexpr uint64_t kName = 1;
constexpr uint64_t kCharsMap = 2;
constexpr uint64_t kAddDummyPrefix = 3;
constexpr uint64_t kRemoveExtraWhitespaces = 4;
constexpr uint64_t kEscapeWhitespaces = 5;

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

// Walks over the fields of a message; stops at the first that is malformed, or is a group, which no
// model has; then it is not complete().
class Fields {
 public:
  explicit Fields(std::string_view bytes) : rest_(bytes) {}

  bool next() {
    if (rest_.empty()) return false;
    field_begin_ = rest_.data();
    complete_ = read_field();
    return complete_;
  }
  bool complete() const { return complete_; }
  // Where the field at hand begins.
  const char* field_begin() const { return field_begin_; }

  // A field counts as unknown if its type does not fit its number.
  bool is_integer(uint64_t number) const { return number_ == number && type_ == kVarint; }
  bool is_float(uint64_t number) const { return number_ == number && type_ == kFixed32; }
  bool is_bytes(uint64_t number) const { return number_ == number && type_ == kDelimited; }
  uint64_t integer() const { return value_; }
  float float_value() const { return value_at<float>(bytes_.data()); }
  std::string_view bytes() const { return bytes_; }

 private:
  enum WireType : uint64_t { kVarint = 0, kFixed64 = 1, kDelimited = 2, kFixed32 = 5 };

  bool read_field() {
    uint64_t tag = 0;
    if (!read_varint(tag)) return false;
    // The library takes the low 32 bits of some longer tags.
    if (tag > UINT32_MAX || tag >> 3 == 0) return false;
    number_ = tag >> 3;
    type_ = tag & 7U;
    uint64_t size = 0;
    switch (type_) {
      case kVarint:
        return read_varint(value_);
      case kFixed64:
        return take(8);
      case kDelimited:
        return read_varint(size) && take(size);
      case kFixed32:
        return take(4);
      default:
        return false;
    }
  }

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
  const char* field_begin_ = nullptr;
  bool complete_ = true;
  uint64_t number_ = 0;
  uint64_t type_ = 0;
  uint64_t value_ = 0;
  std::string_view bytes_;
};

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
    if (type != PieceType::kNormal) piece.add_integer(kType, static_cast<uint64_t>(type));
    model.add_bytes(kPieces, piece.bytes());
    ++num_pieces;
  };
  add_piece("<unk>", 0, PieceType::kUnknown);
  add_piece("<s>", 0, PieceType::kControl);
  add_piece("</s>", 0, PieceType::kControl);
  for (unsigned byte = 0; byte < 256 && byte_fallback; ++byte)
    add_piece(fallback_token(static_cast<unsigned char>(byte)), 0, PieceType::kByte);
  // The encoder joins the neighbours whose piece has the highest score: the order in which they
  // were learned.
  float score = 0;
  for (const auto* list : {&pieces.merges, &pieces.characters}) {
    for (const std::string& text : *list)
      add_piece(with_space_marks(text), score--, PieceType::kNormal);
  }
  Message trainer;
  trainer.add_integer(kModelType, static_cast<uint64_t>(ModelType::kBpe))
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

namespace {

class ModelReader {
 public:
  explicit ModelReader(std::string_view bytes) : bytes_(bytes) {}

  SentencePieceModel read() {
    Fields fields(bytes_);
    while (fields.next()) {
      if (fields.is_bytes(kPieces)) model_.pieces.push_back(read_piece(Fields(fields.bytes())));
      if (fields.is_bytes(kTrainerSpec)) read_trainer(Fields(fields.bytes()));
      if (fields.is_bytes(kNormalizerSpec)) read_normalizer(Fields(fields.bytes()));
      if (fields.is_bytes(kDenormalizerSpec)) read_denormalizer(Fields(fields.bytes()));
    }
    note_damage(fields);
    return std::move(model_);
  }

 private:
  ModelPiece read_piece(Fields fields) {
    ModelPiece piece;
    while (fields.next()) {
      if (fields.is_bytes(kPiece)) piece.text = fields.bytes();
      if (fields.is_float(kScore)) piece.score = fields.float_value();
      if (fields.is_integer(kType)) read_enum(fields, 6, piece.type);
    }
    note_damage(fields);
    return piece;
  }

  void read_trainer(Fields spec) {
    while (spec.next()) {
      if (spec.is_integer(kModelType)) read_enum(spec, 4, model_.type);
      if (spec.is_integer(kByteFallback)) model_.byte_fallback = spec.integer() != 0;
      if (spec.is_integer(kTreatWhitespaceAsSuffix)) model_.space_is_suffix = spec.integer() != 0;
    }
    note_damage(spec);
  }

  void read_normalizer(Fields spec) {
    while (spec.next()) {
      if (spec.is_bytes(kCharsMap)) {
        model_.changes_characters = !spec.bytes().empty();
        model_.tables.push_back({"normalizer_spec", spec.bytes()});
      }
      if (spec.is_integer(kAddDummyPrefix)) model_.adds_prefix = spec.integer() != 0;
      if (spec.is_integer(kRemoveExtraWhitespaces)) model_.removes_spaces = spec.integer() != 0;
      if (spec.is_integer(kEscapeWhitespaces)) model_.escapes_spaces = spec.integer() != 0;
    }
    note_damage(spec);
  }

  void read_denormalizer(Fields spec) {
    while (spec.next()) {
      if (spec.is_bytes(kCharsMap)) model_.tables.push_back({"denormalizer_spec", spec.bytes()});
    }
    note_damage(spec);
  }

  // As protobuf: of 32 bits, and without effect where the value is not known.
  template <class Enum>
  static void read_enum(const Fields& fields, uint32_t largest, Enum& value) {
    const auto number = static_cast<uint32_t>(fields.integer());
    if (number >= 1 && number <= largest) value = static_cast<Enum>(number);
  }

  void note_damage(const Fields& fields) {
    if (!fields.complete() && !model_.damage)
      model_.damage = static_cast<size_t>(fields.field_begin() - bytes_.data());
  }

  std::string_view bytes_;
  SentencePieceModel model_;
};

}  // namespace

SentencePieceModel read_model(std::string_view bytes) { return ModelReader(bytes).read(); }

}  // namespace lmtrain
