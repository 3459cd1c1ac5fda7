// Safetensors files in memory for tests: random tensors that own their bytes, a file from a header
// given as text, and the rules of the format checked anew.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "base/file.h"
#include "formats/safetensors.h"

namespace lmtrain::testing {

struct OwnedTensor {
  DType dtype = DType::kF32;
  std::vector<int64_t> shape;
  std::string bytes;
};
using OwnedTensors = std::map<std::string, OwnedTensor>;

inline std::string random_bytes(std::mt19937_64& random, size_t size) {
  std::string bytes(size, '\0');
  for (char& c : bytes) c = static_cast<char>(random());
  return bytes;
}

// Up to `most` tensors of up to five dimensions of 0..5, of every type.
inline OwnedTensors random_tensors(std::mt19937_64& random, size_t most) {
  OwnedTensors tensors;
  const size_t count = random() % (most + 1);
  for (size_t i = 0; i < count; ++i) {
    OwnedTensor tensor;
    tensor.dtype = static_cast<DType>(random() % 13);
    size_t size = dtype_size(tensor.dtype);
    for (size_t rank = random() % 6; rank > 0; --rank) {
      tensor.shape.push_back(static_cast<int64_t>(random() % 6));
      size *= static_cast<size_t>(tensor.shape.back());
    }
    tensor.bytes = random_bytes(random, size);
    tensors["tensor.\"\xC3\xA9\"." + std::to_string(random() % 1000)] = std::move(tensor);
  }
  return tensors;
}

inline void write_tensors(const std::filesystem::path& path, const OwnedTensors& tensors,
                          const std::map<std::string, std::string>& metadata = {}) {
  std::vector<TensorToWrite> list;
  for (const auto& [name, tensor] : tensors) {
    list.push_back({name, tensor.dtype, tensor.shape, tensor.bytes.data()});
  }
  FileWriter writer(path);
  write_safetensors(writer, std::move(list), metadata);
  writer.finish();
}

inline void expect_equal(const std::map<std::string, TensorView>& read,
                         const OwnedTensors& written) {
  ASSERT_EQ(read.size(), written.size());
  for (const auto& [name, tensor] : written) {
    const auto found = read.find(name);
    ASSERT_NE(found, read.end()) << name;
    EXPECT_EQ(found->second.dtype, tensor.dtype);
    EXPECT_EQ(found->second.shape, tensor.shape);
    EXPECT_EQ(found->second.bytes, tensor.bytes);
  }
}

inline std::string safetensors_bytes(const std::string& header, const std::string& data) {
  const uint64_t size = header.size();
  std::string file(sizeof size, '\0');
  std::memcpy(file.data(), &size, sizeof size);
  return file + header + data;
}

// What every accepted file must satisfy, without the parser's own order of checks: the views tile
// the data exactly, and each has the size of its shape.
inline void expect_rules_hold(const std::string& file,
                              const std::map<std::string, TensorView>& tensors) {
  uint64_t header_size = 0;
  std::memcpy(&header_size, file.data(), sizeof header_size);
  const size_t data_begin = sizeof header_size + header_size;
  ASSERT_LE(data_begin, file.size());
  std::vector<int> covered(file.size() - data_begin);
  for (const auto& [name, view] : tensors) {
    size_t size = dtype_size(view.dtype);
    for (const int64_t dimension : view.shape) {
      ASSERT_GE(dimension, 0);
      size *= static_cast<size_t>(dimension);
    }
    ASSERT_EQ(view.bytes.size(), size);
    const auto begin = static_cast<size_t>(view.bytes.data() - file.data());
    ASSERT_GE(begin, data_begin);
    ASSERT_LE(begin + size, file.size());
    for (size_t i = 0; i < size; ++i) ++covered[begin - data_begin + i];
  }
  for (const int times : covered) ASSERT_EQ(times, 1);
}

}  // namespace lmtrain::testing
