// The tokenizer.json files of tests/reference/tokenizer_json, and small ones to change.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "base/file.h"
#include "tokenizer/byte_alphabet.h"

namespace lmtrain {

inline const std::filesystem::path kTokenizerJsons =
    std::filesystem::path(LMTRAIN_SOURCE_DIR) / "tests/reference/tokenizer_json";

inline std::string reference_tokenizer_json(const std::string& name) {
  return read_file(kTokenizerJsons / (name + ".json"));
}

// All bytes and the merges "a b" (256) and "ab c" (257), cut by ByteLevel.
inline nlohmann::json small_tokenizer_json() {
  nlohmann::json vocab;
  for (int byte = 0; byte < 256; ++byte)
    vocab[token_of_byte(static_cast<unsigned char>(byte))] = byte;
  vocab["ab"] = 256;
  vocab["abc"] = 257;
  return {{"version", "1.0"},
          {"truncation", nullptr},
          {"padding", nullptr},
          {"added_tokens", nlohmann::json::array()},
          {"normalizer", nullptr},
          {"pre_tokenizer",
           {{"type", "ByteLevel"},
            {"add_prefix_space", false},
            {"trim_offsets", true},
            {"use_regex", true}}},
          {"post_processor", nullptr},
          {"decoder", {{"type", "ByteLevel"}}},
          {"model",
           {{"type", "BPE"},
            {"dropout", nullptr},
            {"unk_token", nullptr},
            {"continuing_subword_prefix", nullptr},
            {"end_of_word_suffix", nullptr},
            {"fuse_unk", false},
            {"byte_fallback", false},
            {"ignore_merges", false},
            {"vocab", vocab},
            {"merges", {"a b", "ab c"}}}}};
}

}  // namespace lmtrain
