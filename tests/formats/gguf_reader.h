// A small reader of GGUF files, written from the format's description and not from the writer.
#pragma once

#include <cstdint>
#include <cstring>
#include <map>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace lmtrain::testing {

struct GgufValue {
  uint32_t type = 0;  // of the value; of an array that of its elements
  bool is_array = false;
  std::vector<double> numbers;
  std::vector<std::string> texts;
};

struct GgufTensorRead {
  std::string name;
  std::vector<uint64_t> sizes;  // as in the file: the row length first
  uint32_t type = 0;
  uint64_t offset = 0;  // from the beginning of the data
};

// Throws std::runtime_error at the end of the bytes.
class GgufReader {
 public:
  explicit GgufReader(std::string_view bytes) : bytes_(bytes) {
    magic = take(4);
    version = number<uint32_t>();
    const auto num_tensors = number<uint64_t>();
    const auto num_keys = number<uint64_t>();
    for (uint64_t i = 0; i < num_keys; ++i) {
      keys.push_back(text());
      values[keys.back()] = value();
    }
    for (uint64_t i = 0; i < num_tensors; ++i) {
      GgufTensorRead tensor;
      tensor.name = text();
      tensor.sizes.resize(number<uint32_t>());
      for (uint64_t& size : tensor.sizes) size = number<uint64_t>();
      tensor.type = number<uint32_t>();
      tensor.offset = number<uint64_t>();
      tensors.push_back(tensor);
    }
    data_begin = (at_ + 31) / 32 * 32;
  }

  // The bytes of a tensor of so many bytes.
  std::string_view data(const GgufTensorRead& tensor, size_t size) const {
    return bytes_.substr(data_begin + tensor.offset, size);
  }
  const GgufTensorRead& tensor(const std::string& name) const {
    for (const GgufTensorRead& tensor : tensors)
      if (tensor.name == name) return tensor;
    throw std::runtime_error("no tensor " + name);
  }
  double number_of(const std::string& key) const { return values.at(key).numbers.at(0); }
  const std::string& text_of(const std::string& key) const { return values.at(key).texts.at(0); }

  std::string magic;
  uint32_t version = 0;
  std::vector<std::string> keys;  // in their order
  std::map<std::string, GgufValue> values;
  std::vector<GgufTensorRead> tensors;
  size_t data_begin = 0;

 private:
  std::string take(size_t size) {
    if (size > bytes_.size() - at_) throw std::runtime_error("the file ends early");
    at_ += size;
    return std::string(bytes_.substr(at_ - size, size));
  }
  template <class T>
  T number() {
    T value;
    std::memcpy(&value, take(sizeof(T)).data(), sizeof(T));
    return value;
  }
  std::string text() { return take(number<uint64_t>()); }
  void add_scalar(uint32_t type, GgufValue& value) {
    if (type == 4) value.numbers.push_back(number<uint32_t>());
    if (type == 5) value.numbers.push_back(number<int32_t>());
    if (type == 6) value.numbers.push_back(static_cast<double>(number<float>()));
    if (type == 7) value.numbers.push_back(number<uint8_t>());
    if (type == 8) value.texts.push_back(text());
    if (type < 4 || type > 8) throw std::runtime_error("a type that is not read");
  }
  GgufValue value() {
    GgufValue result;
    result.type = number<uint32_t>();
    result.is_array = result.type == 9;
    uint64_t size = 1;
    if (result.is_array) {
      result.type = number<uint32_t>();
      size = number<uint64_t>();
    }
    for (uint64_t i = 0; i < size; ++i) add_scalar(result.type, result);
    return result;
  }

  std::string_view bytes_;
  size_t at_ = 0;
};

}  // namespace lmtrain::testing
