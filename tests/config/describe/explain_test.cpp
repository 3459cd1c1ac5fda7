#include <gtest/gtest.h>

#include "config/config_text.h"
#include "config/describe/describe.h"

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
