// A sentencepiece model file with any pieces and settings, for tests of encoding.
#pragma once

#include <bit>
#include <cstdint>
#include <string>
#include <string_view>

#include "tokenizer/model_proto.h"

namespace lmtrain {

// What read_model() reads back. Field numbers of sentencepiece_model.proto.
inline std::string model_bytes(const SentencePieceModel& model) {
  const auto add_varint = [](std::string& bytes, uint64_t value) {
    for (; value >= 0x80; value >>= 7) bytes.push_back(static_cast<char>(value | 0x80U));
    bytes.push_back(static_cast<char>(value));
  };
  const auto add_integer = [&](std::string& bytes, uint64_t field, uint64_t value) {
    add_varint(bytes, field << 3);
    add_varint(bytes, value);
  };
  const auto add_bytes = [&](std::string& bytes, uint64_t field, std::string_view content) {
    add_varint(bytes, field << 3 | 2U);
    add_varint(bytes, content.size());
    bytes += content;
  };
  std::string bytes;
  for (const ModelPiece& piece : model.pieces) {
    std::string content;
    add_bytes(content, 1, piece.text);
    add_varint(content, 2 << 3 | 5U);
    const auto score = std::bit_cast<uint32_t>(piece.score);
    for (unsigned shift = 0; shift < 32; shift += 8)
      content.push_back(static_cast<char>(score >> shift & 0xFFU));
    add_integer(content, 3, static_cast<uint64_t>(piece.type));
    add_bytes(bytes, 1, content);
  }
  std::string trainer;
  add_integer(trainer, 3, static_cast<uint64_t>(model.type));
  add_integer(trainer, 24, model.space_is_suffix ? 1 : 0);
  add_integer(trainer, 35, model.byte_fallback ? 1 : 0);
  add_bytes(bytes, 2, trainer);
  std::string normalizer;
  add_integer(normalizer, 3, model.adds_prefix ? 1 : 0);
  add_integer(normalizer, 4, model.removes_spaces ? 1 : 0);
  add_integer(normalizer, 5, model.escapes_spaces ? 1 : 0);
  add_bytes(bytes, 3, normalizer);
  return bytes;
}

}  // namespace lmtrain
