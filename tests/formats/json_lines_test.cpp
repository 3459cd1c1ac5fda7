#include "formats/json_lines.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "base/support.h"

namespace lmtrain {
namespace {

using testing::TemporaryFolder;

TEST(JsonLines, VisitsWholeLinesThatAreObjects) {
  const TemporaryFolder folder;
  const std::string text =
      "{\"step\":1}\n\nnonsense\n{\"step\":2}\r\n[3]\n{\"step\":4,\"step\":4}\n{\"step\":5}\n{"
      "\"step\":6}";
  testing::replace_file(folder / "file", text);
  std::vector<int> steps;
  std::vector<uint64_t> ends;
  for_each_json_line(folder / "file", [&](const nlohmann::json& line, uint64_t end) {
    steps.push_back(line["step"]);
    ends.push_back(end);
  });
  EXPECT_EQ(steps, (std::vector<int>{1, 2, 5}));
  for (const uint64_t end : ends) EXPECT_EQ(text[end - 1], '\n');
}

TEST(JsonLines, VisitsTheLinesThatHoldAText) {
  const TemporaryFolder folder;
  const std::string text =
      "{\"a\":1,\"step\":1}\n{\"step\":2}\nx \"a\"\n{\"a\":[\"a\"],\"step\":4}\n\n"
      "{\"step\":5,\"a\":0}\n{\"a\":1,\"step\":6}";
  testing::replace_file(folder / "file", text);
  std::vector<int> steps;
  for_each_json_line_with(folder / "file", "\"a\"", [&](const nlohmann::json& line, uint64_t end) {
    steps.push_back(line["step"]);
    EXPECT_EQ(text[end - 1], '\n');
  });
  EXPECT_EQ(steps, (std::vector<int>{1, 4, 5}));
  for_each_json_line_with(folder / "none", "a", [](const nlohmann::json&, uint64_t) { FAIL(); });
}

TEST(JsonLines, ANumberIsThatOfItsKeyAlone) {
  const nlohmann::json line = {{"whole", 3}, {"real", 0.5}, {"null", nullptr}, {"text", "7"}};
  EXPECT_EQ(number_at(line, "whole"), 3.0);
  EXPECT_EQ(number_at(line, "real"), 0.5);
  for (const char* key : {"null", "text", "missing"}) EXPECT_EQ(number_at(line, key), std::nullopt);
}

TEST(JsonLines, MissingAndEmptyFilesHaveNoLines) {
  const TemporaryFolder folder;
  testing::replace_file(folder / "empty", "");
  const auto never = [](const nlohmann::json&, uint64_t) { FAIL(); };
  for_each_json_line(folder / "missing", never);
  for_each_json_line(folder / "empty", never);
  for_each_json_line_with(folder / "empty", "a", never);
  testing::error_of(ErrorKind::kData, [&] { for_each_json_line(folder.path(), never); });
}

}  // namespace
}  // namespace lmtrain
