#include "config/digest.h"

#include <cctype>
#include <nlohmann/json.hpp>

#include "config/config_text.h"

namespace lmtrain {
namespace {

using Json = nlohmann::ordered_json;

std::string sealed() { return sealed_text(config_to_json(parsed("\"seed\": 7"))); }

TEST(Digest, FitsWhatItSeals) {
  EXPECT_EQ(seal_of(sealed()), Seal::kGood);
  // Sealed anew, the old digest counts for nothing.
  EXPECT_EQ(sealed_text(Json::parse(sealed())), sealed());
}

TEST(Digest, EveryChangedDigitAndLetterOfAValueShows) {
  const std::string text = sealed();
  int64_t changed = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    if (std::isalnum(static_cast<unsigned char>(text[i])) == 0) continue;
    std::string other = text;
    other[i] = static_cast<char>(other[i] ^ 1);
    const auto json = nlohmann::json::parse(other, nullptr, false);
    if (!json.is_object() || !json.contains(kDigestKey)) continue;  // refused when it is read
    // 0.95 as 0.95 in other digits would be the same number; one bit never is.
    EXPECT_EQ(seal_of(other), Seal::kBroken) << other.substr(i < 20 ? 0 : i - 20, 40);
    ++changed;
  }
  EXPECT_GT(changed, 500);
}

TEST(Digest, OrderSpaceAndCommentsDoNotCount) {
  const auto sorted = nlohmann::json::parse(sealed());
  EXPECT_EQ(seal_of(sorted.dump()), Seal::kGood);
  EXPECT_EQ(seal_of("// by hand\n" + sorted.dump(4)), Seal::kGood);
}

TEST(Digest, AbsentIsNotBroken) {
  EXPECT_EQ(seal_of(config_to_json(parsed("")).dump()), Seal::kNone);
  EXPECT_EQ(seal_of("{"), Seal::kNone);
  EXPECT_EQ(seal_of("[1]"), Seal::kNone);
}

// A copy of a run's config.json is a config like any other.
TEST(Digest, IsAcceptedWithoutEffect) {
  EXPECT_EQ(problems_of(config_text("\"digest\": \"of something else\"")),
            std::vector<std::string>());
  EXPECT_EQ(show_config(parsed("\"digest\": \"x\"")).find("digest"), std::string::npos);
}

}  // namespace
}  // namespace lmtrain
