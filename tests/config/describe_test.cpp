#include "config/describe.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>

#include "config/config_text.h"
#include "config/settings.h"

namespace lmtrain {
namespace {

TEST(Explain, SaysMeaningRangeDefaultUseAndSource) {
  EXPECT_EQ(explain_setting("lr_schedule.decay_shape"),
            "lr_schedule.decay_shape\n"
            "  How it falls there.\n"
            "  takes:   linear | sqrt | one_minus_sqrt | cosine\n"
            "  default: \"one_minus_sqrt\"\n"
            "  used if: lr_schedule.type is wsd\n"
            "  source:  H\xC3\xA4gele et al. 2024\n");
}

TEST(Explain, TakesPointersSectionsAndNothing) {
  EXPECT_EQ(explain_setting("/optimizer/lr"), explain_setting("optimizer.lr"));
  EXPECT_EQ(explain_setting("/data/train/0/weight"), explain_setting("data.train[].weight"));
  const std::string section = explain_setting("clip");
  EXPECT_NE(section.find("clip.type"), std::string::npos);
  EXPECT_NE(section.find("clip.max"), std::string::npos);
  EXPECT_EQ(section.find("optimizer.lr"), std::string::npos);
  EXPECT_NE(explain_setting("").find(section.substr(section.find("clip.type"))), std::string::npos);
}

size_t count_lines(const std::string& text) {
  return static_cast<size_t>(std::count(text.begin(), text.end(), '\n'));
}

// The settings that matter first are on one screen, with defaults that are true.
TEST(Explain, WithoutAKeyTwentySettingsOnOneScreen) {
  const std::string text = explain_first_settings();
  EXPECT_EQ(count_lines(text), 22U) << "a line before and a line after them";
  Config config;
  const SettingTable table = config_settings(config);
  std::istringstream lines(text);
  int64_t found = 0;
  for (std::string line; std::getline(lines, line);) {
    EXPECT_LE(line.size(), 80U) << line;
    if (!line.starts_with("  ")) continue;
    const std::string key = line.substr(2, line.find(' ', 2) - 2);
    EXPECT_NE(table.find(key), nullptr) << line;
    ++found;
  }
  EXPECT_EQ(found, 20);
  EXPECT_NE(text.find("  sequence.max_length         auto "), std::string::npos) << text;
  EXPECT_NE(text.find("--all"), std::string::npos) << text;
}

TEST(Explain, EachTypeOfOptimizerHasItsUseAndItsKeys) {
  const std::string text = explain_setting("optimizer.type");
  Config config;
  const SettingTable table = config_settings(config);
  for (const std::string& type : table.find("optimizer.type")->choices) {
    const size_t at = text.find("\n    " + type + " ");
    ASSERT_NE(at, std::string::npos) << type;
    const std::string line = text.substr(at + 1, text.find('\n', at + 1) - at - 1);
    EXPECT_GT(line.size(), 40U) << line << " says too little";
  }
  EXPECT_NE(text.find("; its keys: precondition_frequency, max_precond_dim\n"), std::string::npos)
      << text;
  EXPECT_EQ(explain_setting("optimizer").find("its keys"), std::string::npos);
}

TEST(Explain, AnUnknownKeyIsAUsageErrorWithTheNearest) {
  for (const char* key : {"optimizr.lr", "learning_rate", "optimizer.lrr"}) {
    try {
      explain_setting(key);
      ADD_FAILURE() << key;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kUsage);
      EXPECT_NE(std::string(error.what()).find("did you mean \"optimizer.lr\"?"), std::string::npos)
          << error.what();
    }
  }
}

}  // namespace

}  // namespace lmtrain
