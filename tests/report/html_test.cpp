#include "report/html.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

namespace lmtrain {
namespace {

TEST(Html, EscapesWhatHtmlReads) {
  EXPECT_EQ(escape_html("<script>alert('x' & \"y\")</script>"),
            "&lt;script&gt;alert(&#39;x&#39; &amp; &quot;y&quot;)&lt;/script&gt;");
  EXPECT_EQ(escape_html("größe 1\n\t2"), "größe 1\n\t2");
  EXPECT_EQ(escape_html(""), "");
}

TEST(Html, ReplacesBytesThatAreNoText) {
  const std::string replaced = "\xEF\xBF\xBD";
  EXPECT_EQ(escape_html("a\xff\x01\x7f"), "a" + replaced + replaced + replaced);
  EXPECT_EQ(escape_html(std::string_view("\0", 1)), replaced);
  EXPECT_EQ(escape_html("a\xE2\x80\xAE\xC2\x9B"), "a" + replaced + replaced);
}

TEST(Html, JsonCannotEndItsScript) {
  const nlohmann::ordered_json json = {{"</script><!--", "a & b > \xff"}};
  const std::string text = json_for_script(json);
  EXPECT_EQ(text.find_first_of("<>&"), std::string::npos) << text;
  const auto parsed = nlohmann::ordered_json::parse(text);
  EXPECT_EQ(parsed.at("</script><!--"), "a & b > \xEF\xBF\xBD");
}

TEST(Html, Base64OfFloats) {
  // RFC 4648 of the bytes 00 00 80 3F, and so on.
  EXPECT_EQ(base64_floats(std::vector<float>{1.0F}), "AACAPw==");
  EXPECT_EQ(base64_floats(std::vector<float>{1.0F, -2.5F}), "AACAPwAAIMA=");
  EXPECT_EQ(base64_floats(std::vector<float>{1.0F, 1.0F, 1.0F}), "AACAPwAAgD8AAIA/");
  EXPECT_EQ(base64_floats({}), "");
}

}  // namespace
}  // namespace lmtrain
