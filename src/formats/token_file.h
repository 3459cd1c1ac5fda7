// Files of token ids that other programs wrote are read in place, without a copy
// (docs/formats/token_files.md): nanoGPT and OLMo (ids alone), numpy's .npy, llm.c, and Megatron's
// .bin with its .idx. The functions throw Error(kData) that names file and location where a file is
// cut short or contradicts itself.
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
  // The id with which each document begins, if the format tells.
  std::optional<int32_t> document_begins_with{};
  // The ends of the documents, in tokens from the first id, if there is an index; else empty.
  std::vector<uint64_t> document_ends{};
};

// Returns the layout of `file`. The first bytes tell the format, else an .idx file beside it (x.idx
// for x.bin), which is then read too. Any other file holds ids alone, of `width` bytes each, 2 or
// 4. With 0 the width is decided: four bytes if `vocab_size` (pieces of the tokenizer, at least 1)
// is above 65536, else two. A file that may as well hold ids of four bytes, because all of these
// are below `vocab_size` too, is then Error(kData), as is one that says another width than `width`.
// The ids themselves are not checked.
TokenFileLayout read_token_file_layout(const MappedFile& file, int64_t vocab_size,
                                       uint32_t width = 0);

// Returns whether the file is an index by its name (.idx). An index is read together with its file
// of ids, not by itself.
bool is_token_file_index(const std::filesystem::path& path);

}  // namespace lmtrain
