// What a model writes behind given prompts while it is trained.
#include "eval/samples.h"

#include "base/support.h"
#include "base/utf8.h"
#include "device/torch_headers.h"
#include "support/source_dir.h"
#include "training/tiny_model.h"

namespace lmtrain {
namespace {

using testing::error_of;
using testing::TinyModel;

Tokenizer a_tokenizer() {
  return Tokenizer::load(testing::source_dir() / "tests/reference/tokenizer/tokenizer.model");
}

Config with_prompts(const std::vector<std::string>& prompts) {
  Config config;
  config.sequence.max_length = 8;
  config.log.samples = SamplesConfig{.prompts = prompts, .max_tokens = 4};
  return config;
}

TEST(Samples, APromptThatDoesNotFitIsNamed) {
  const std::string message = error_of(ErrorKind::kConfig, [] {
    SampleWriter(with_prompts({"a", "one two three four five six seven eight nine"}),
                 a_tokenizer());
  });
  EXPECT_NE(message.find("/log/samples/prompts/1 (\"one two"), std::string::npos) << message;
  EXPECT_NE(message.find("8 positions"), std::string::npos) << message;
}

TEST(Samples, ALineIsShort) {
  EXPECT_EQ(sample_line({"def f(x):", "\n  return x", 5, GenerateEnd::kStopToken}, 100),
            R"("def f(x):" > "\n  return x")");
  EXPECT_EQ(sample_line({"0123456789", "0123456789", 5, GenerateEnd::kStopToken}, 4),
            R"("...6789" > "0123...")");
  // No character is cut in two.
  const std::string two_bytes = "\xC3\xA9\xC3\xA9\xC3\xA9";
  EXPECT_EQ(sample_line({two_bytes, two_bytes, 5, GenerateEnd::kStopToken}, 3),
            "\"...\xC3\xA9\" > \"\xC3\xA9...\"");
  // Bytes that are no character are shown as such.
  EXPECT_TRUE(is_utf8(sample_line({"\xFF", "\xFF", 1, GenerateEnd::kMaxTokens}, 9)));
}

}  // namespace
}  // namespace lmtrain
