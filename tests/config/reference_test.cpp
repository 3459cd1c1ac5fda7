#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "base/file.h"
#include "config/config_text.h"
#include "config/describe.h"

namespace lmtrain {
namespace {

// LMTRAIN_UPDATE_DOCS=1 writes the page instead of comparing it.
TEST(Reference, DocsConfigIsUpToDate) {
  const std::filesystem::path page = std::filesystem::path(LMTRAIN_SOURCE_DIR) / "docs/config.md";
  const char* update = std::getenv("LMTRAIN_UPDATE_DOCS");
  if (update != nullptr && std::string(update) == "1") {
    write_file_atomic(page, config_reference_markdown());
  }
  EXPECT_TRUE(read_file(page) == config_reference_markdown())
      << "run LMTRAIN_UPDATE_DOCS=1 build/test_config --gtest_filter='Reference.*'";
}

}  // namespace
}  // namespace lmtrain
