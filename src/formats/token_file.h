// Finds the ids in files that other programs wrote, which are read in place
// (docs/formats/token_files.md): nanoGPT and OLMo (ids alone), numpy's .npy, llm.c, and Megatron's
// .bin with its .idx. Throws Error(kData) that names file and location where a file is cut short or
// contradicts itself.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/file.h"

namespace lmtrain {

// The layout says where the ids of a file are.
struct TokenFileLayout {
  std::string name;    // for people: "llm.c", "numpy", ...
  uint64_t begin = 0;  // the byte at which the first id begins
  uint64_t num_tokens = 0;
  uint32_t bytes_per_token = 0;  // 1, 2, 4 or 8, little-endian
  // The id with which each document begins; none: the format does not say.
  std::optional<int32_t> document_begins_with{};
  // The end of each document, in tokens from the first id; empty without an index.
  std::vector<uint64_t> document_ends{};
  bool is_signed = false;  // an id with the highest bit is negative
};

// Returns the layout of `file`. The first bytes tell the format, else an .idx file beside it (x.idx
// for x.bin), which is then read too. Any other file holds ids alone, of `width` bytes each, 2 or
// 4. With `width` 0 an id has four bytes if `vocab_size`, at least 1, is above 65536, else two. The
// caller checks that the ids are below `vocab_size`. Also throws Error(kData) where:
//   `width` is not 0, and the format says another width
//   `width` is 0, and the file could hold ids of two bytes as well as ids of four
TokenFileLayout read_token_file_layout(const MappedFile& file, int64_t vocab_size,
                                       uint32_t width = 0);

// Returns whether the file is an index (.idx) by its name. An index is read with its file of ids.
bool is_token_file_index(const std::filesystem::path& path);

}  // namespace lmtrain
