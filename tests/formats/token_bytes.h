// Token files as other programs write them.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "base/text.h"

namespace lmtrain::testing {

template <class Value>
void put(std::string& out, Value value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof value);
}

// nanoGPT, OLMo, Megatron's .bin.
template <class Token>
std::string ids_as(const std::vector<int32_t>& ids) {
  std::string out;
  for (const int32_t id : ids) put(out, static_cast<Token>(id));
  return out;
}

inline std::string llmc_bytes(const std::vector<int32_t>& ids, bool is_gpt2) {
  std::string out;
  put<int32_t>(out, is_gpt2 ? 20240520 : 20240801);
  put<int32_t>(out, is_gpt2 ? 1 : 7);
  put<int32_t>(out, static_cast<int32_t>(ids.size()));
  out.resize(1024);
  return out + (is_gpt2 ? ids_as<uint16_t>(ids) : ids_as<uint32_t>(ids));
}

inline std::string numpy_bytes(const std::string& type, const std::string& data, size_t count) {
  std::string header =
      str("{'descr': '", type, "', 'fortran_order': False, 'shape': (", count, ",), }");
  while ((10 + header.size() + 1) % 64 != 0) header += ' ';
  header += '\n';
  std::string out("\x93NUMPY\x01\x00", 8);
  put(out, static_cast<uint16_t>(header.size()));
  return out + header + data;
}

// `sequences` are lengths; a document begins at each of `documents` (of sequences) and at the end.
inline std::string megatron_index(uint8_t type, uint64_t width,
                                  const std::vector<int32_t>& sequences,
                                  const std::vector<int64_t>& documents) {
  std::string out("MMIDIDX\0\0", 9);
  put<uint64_t>(out, 1);
  put<uint8_t>(out, type);
  put<uint64_t>(out, sequences.size());
  put<uint64_t>(out, documents.size());
  for (const int32_t length : sequences) put(out, length);
  uint64_t pointer = 0;
  for (const int32_t length : sequences) {
    put(out, pointer);
    pointer += static_cast<uint64_t>(length) * width;
  }
  for (const int64_t document : documents) put(out, document);
  return out;
}

}  // namespace lmtrain::testing
