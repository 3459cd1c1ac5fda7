// The temporary folder of tests/base with the file operations that the tests of corpus need, and
// the tokenizer that they share.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

#include "base/support.h"

namespace lmtrain {

using testing::error_of;

// A BPE tokenizer of 384 pieces (tests/reference/README.md).
inline const std::string kTokenizerModel =
    (std::filesystem::path(LMTRAIN_SOURCE_DIR) / "tests/reference/tokenizer/tokenizer.model")
        .native();

class Folder : public testing::TemporaryFolder {
 public:
  std::string str(const std::string& name = "") const { return (path() / name).native(); }

  std::filesystem::path write(const std::string& name, std::string_view bytes) const {
    const std::filesystem::path file = path() / name;
    std::filesystem::create_directories(file.parent_path());
    // Tests write thousands of files: no sync, and a new file, since some file systems sync one
    // that is overwritten.
    std::filesystem::remove(file);
    std::ofstream(file, std::ios::binary) << bytes;
    return file;
  }
};

inline void expect_contains(const std::string& text, std::string_view part) {
  EXPECT_NE(text.find(part), std::string::npos) << "'" << part << "' is not in: " << text;
}

}  // namespace lmtrain
