// The temporary folder of tests/base with the file operations that the tests of corpus need.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <string_view>

#include "base/file.h"
#include "base/support.h"

namespace lmtrain {

using testing::error_of;

class Folder : public testing::TemporaryFolder {
 public:
  std::string str(const std::string& name = "") const { return (path() / name).native(); }

  std::filesystem::path write(const std::string& name, std::string_view bytes) const {
    const std::filesystem::path file = path() / name;
    std::filesystem::create_directories(file.parent_path());
    FileWriter writer(file);
    writer.write(bytes);
    writer.finish();
    return file;
  }
};

inline void expect_contains(const std::string& text, std::string_view part) {
  EXPECT_NE(text.find(part), std::string::npos) << "'" << part << "' is not in: " << text;
}

}  // namespace lmtrain
