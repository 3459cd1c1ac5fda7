// A setting or value that was removed is refused with what to use. A run's own config.json may hold
// the default that the setting had.
#include "config/removed_settings.h"

#include <gtest/gtest.h>

#include "base/text.h"
#include "config/config_text.h"
#include "config/describe.h"

namespace lmtrain {
namespace {

struct Removed {
  const char* name;
  const char* members;  // of the config, beside "data", on line 2
  const char* pointer;
  const char* cure;
};

class RemovedSettings : public ::testing::TestWithParam<Removed> {};

TEST_P(RemovedSettings, AreRefusedWithWhatToUse) {
  const Removed& removed = GetParam();
  const std::vector<std::string> problems = problems_of(config_text(removed.members));
  ASSERT_EQ(problems.size(), 1U) << join(problems, "\n");
  EXPECT_TRUE(problems[0].starts_with(std::string("run.json:2: ") + removed.pointer + ": "))
      << problems[0];
  EXPECT_NE(problems[0].find(removed.cure), std::string::npos) << problems[0];
  EXPECT_NE(problems[0].find(" was removed"), std::string::npos) << problems[0];
}

const Removed kRemoved[] = {
    {"products", R"("products": "chosen")", "/products", "leave it out"},
    {"products_default", R"("products": "heuristic")", "/products", "leave it out"},
    {"schedule_free", R"("optimizer": {"type": "schedule_free"})", "/optimizer/type",
     "use adamw with lr_schedule.type wsd"},
    {"prodigy", R"("optimizer": {"type": "prodigy"})", "/optimizer/type", "use adamw"},
    {"betas_end", R"("optimizer": {"betas_end": [0.9, 0.99]})", "/optimizer/betas_end",
     "leave it out"},
    {"weight_decay_end_ratio", R"("optimizer": {"weight_decay_end_ratio": 0.5})",
     "/optimizer/weight_decay_end_ratio", "leave it out"},
    {"end_shape", R"("optimizer": {"end_shape": "cosine"})", "/optimizer/end_shape",
     "leave it out"},
    {"d0", R"("optimizer": {"d0": 1e-3})", "/optimizer/d0", "leave it out"},
    {"d_coef", R"("optimizer": {"d_coef": 2})", "/optimizer/d_coef", "leave it out"},
};
INSTANTIATE_TEST_SUITE_P(All, RemovedSettings, ::testing::ValuesIn(kRemoved),
                         [](const auto& one) { return one.param.name; });

TEST(RemovedSettingsOfARun, AreAcceptedAsTheirDefaultAlone) {
  const std::string of_run = R"("digest": "0123", )";
  EXPECT_EQ(parsed(of_run + R"("products": "heuristic", "optimizer": {"betas_end": [],
                "weight_decay_end_ratio": 1.0, "end_shape": "linear", "d0": 1e-06, "d_coef": 1.0})"),
            parsed(""));
  const auto problems = problems_of(config_text(of_run + R"("products": "chosen")"));
  ASSERT_EQ(problems.size(), 1U);
  EXPECT_NE(problems[0].find("/products"), std::string::npos) << problems[0];
}

TEST(RemovedSettingsOfARun, AnOverrideIsRefusedLikeAKeyOfTheFile) {
  const auto problems = problems_of(config_text(), {"products=chosen"});
  ASSERT_EQ(problems.size(), 1U);
  EXPECT_NE(problems[0].find("leave it out"), std::string::npos) << problems[0];
}

TEST(RemovedSettingsExplained, SayWhatToUse) {
  try {
    explain_setting("products");
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUsage);
    EXPECT_NE(std::string(error.what()).find("leave it out"), std::string::npos);
  }
}

}  // namespace
}  // namespace lmtrain
