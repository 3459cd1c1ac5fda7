// A file of token ids that another program wrote, to be read where it lies
// (docs/formats/token_files.md): nanoGPT and OLMo (ids and nothing else), numpy's .npy, llm.c, and
// Megatron's .bin with its .idx. Error(kData) naming file and location for one that is cut short or
// contradicts itself.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/files/file.h"

namespace lmtrain {

// Where the ids of a file are.
struct TokenFileLayout {
  std::string name;    // for people: "llm.c", "numpy", ...
  uint64_t begin = 0;  // byte of the first id
  uint64_t num_tokens = 0;
  uint32_t bytes_per_token = 0;  // 1, 2, 4 or 8, little-endian
  // The id that separates documents, where the format says it; it begins a document.
  std::optional<int32_t> document_begins_with{};
  // Where each document ends, in tokens, where an index says it.
  std::vector<uint64_t> document_ends{};
};

// Tells the format by the first bytes, or by an .idx file of the same name, which it then reads
// too. A file of ids and nothing else has two bytes an id if `vocab_size` (pieces of the tokenizer)
// is at most 65536, as its writers do, unless every second pair of bytes is zero; else four.
TokenFileLayout read_token_file_layout(const MappedFile& file, int64_t vocab_size);

// Whether the name is that of an index (.idx), which is read with the file of ids that it belongs
// to, not by itself.
bool is_token_file_index(const std::filesystem::path& path);

}  // namespace lmtrain
