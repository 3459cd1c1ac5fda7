#include "corpus/model_proto.h"

#include <cstdint>

namespace lmtrain {
namespace {

constexpr uint64_t kTrainerSpecField = 2;  // of ModelProto
constexpr uint64_t kModelTypeField = 3;    // of TrainerSpec
constexpr uint64_t kUnigram = 1;

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

}  // namespace

bool is_unigram_model(std::string_view model) {
  uint64_t type = kUnigram;
  for (Fields fields(model); fields.next();) {
    if (fields.number() != kTrainerSpecField) continue;
    for (Fields spec(fields.bytes()); spec.next();) {
      if (spec.number() == kModelTypeField) type = spec.value();
    }
  }
  return type == kUnigram;
}

}  // namespace lmtrain
