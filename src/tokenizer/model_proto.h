// Reads and writes sentencepiece's model file, a protobuf message ModelProto
// (developers.google.com/protocol-buffers/docs/encoding; field numbers of
// sentencepiece_model.proto). Models are written for the vocabularies that we train, and read for
// what the library's interface does not tell.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/bpe_trainer.h"

namespace lmtrain {

// sentencepiece writes a space as U+2581.
inline constexpr std::string_view kSpaceMark = "\xE2\x96\x81";

// Returns the bytes of a BPE model: <unk> <s> </s>, the 256 bytes if `byte_fallback`, merges,
// characters; identity normalisation, no dummy prefix, all whitespace kept. `coverage` is stored in
// the file and has no other effect.
std::string bpe_model(const BpePieces& pieces, bool byte_fallback, double coverage);

// These types hold the fields of a model that encoding depends on. Their defaults are the values of
// fields that a file does not have.
enum class ModelType : uint8_t { kUnigram = 1, kBpe = 2, kWord = 3, kChar = 4 };
enum class PieceType : uint8_t {
  kNormal = 1,
  kUnknown = 2,
  kControl = 3,
  kUserDefined = 4,
  kUnused = 5,
  kByte = 6
};
struct ModelPiece {
  std::string text;  // a space is U+2581
  float score = 0;
  PieceType type = PieceType::kNormal;

  // Returns whether the encoder looks for the piece in text.
  bool is_in_text() const { return type == PieceType::kNormal || type == PieceType::kUserDefined; }
};
// A table of characters and their replacements (precompiled_charsmap); model_check.h checks it.
struct ModelTable {
  std::string_view name;   // name of the message that holds it
  std::string_view bytes;  // empty: nothing is replaced
};
struct SentencePieceModel {
  std::vector<ModelPiece> pieces;  // by id
  ModelType type = ModelType::kUnigram;
  bool byte_fallback = false;
  bool space_is_suffix = false;
  bool changes_characters = false;  // has a table of characters to replace
  bool adds_prefix = true;
  bool removes_spaces = true;
  bool escapes_spaces = true;
  std::vector<ModelTable> tables;  // all tables; they view the bytes that were read
  std::optional<size_t> damage;    // the first byte that was not understood
};
// Reads a model from any bytes, which must outlive its `tables`. Throws nothing: `damage` says
// where reading stopped.
SentencePieceModel read_model(std::string_view bytes);

}  // namespace lmtrain
