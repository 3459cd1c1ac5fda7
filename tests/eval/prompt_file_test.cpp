#include "eval/prompt_file.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/support.h"

namespace lmtrain {
namespace {

using testing::error_of;

std::vector<std::string> texts(std::string_view bytes, const std::string& origin = "prompts.txt") {
  std::vector<std::string> all;
  for (const Prompt& prompt : parse_prompts(bytes, origin)) all.push_back(prompt.text);
  return all;
}
using Texts = std::vector<std::string>;

TEST(PromptFile, EveryLineIsOne) {
  EXPECT_EQ(texts("one\n two \r\n\n{\"a\": 1}\nlast"),
            (Texts{"one", " two ", "", "{\"a\": 1}", "last"}));
  EXPECT_EQ(texts("one\n"), (Texts{"one"}));
  EXPECT_EQ(texts("\n"), (Texts{""}));
  const std::vector<Prompt> prompts = parse_prompts("a\nb\n", "file");
  EXPECT_EQ(prompts[1].where, "file:2");
}

TEST(PromptFile, JsonLinesAreKnownByTheirFirstLineOrTheirName) {
  const std::string lines = "\n{\"prompt\": \"a\\nb\", \"id\": 7}\n \n{\"prompt\": \"\"}\n";
  EXPECT_EQ(texts(lines), (Texts{"a\nb", ""}));
  EXPECT_EQ(parse_prompts(lines, "file")[1].where, "file:4");
  EXPECT_EQ(texts("{\"prompt\": \"x\"}", "a.jsonl"), (Texts{"x"}));
  // In a file of text a later line may look like an object.
  EXPECT_EQ(texts("text\n{\"prompt\": \"x\"}\n"), (Texts{"text", "{\"prompt\": \"x\"}"}));
}

TEST(PromptFile, ALineThatIsNoneIsNamed) {
  const auto problem = [](std::string_view bytes, const std::string& origin) {
    return error_of(ErrorKind::kData, [&] { parse_prompts(bytes, origin); });
  };
  const std::string good = "{\"prompt\": \"a\"}\n";
  for (const auto& [line, message] :
       std::vector<std::pair<std::string, std::string>>{{"text", "not JSON"},
                                                        {"[1]", "is no JSON object"},
                                                        {"{\"text\": \"a\"}", "has no \"prompt\""},
                                                        {"{\"prompt\": 3}", "is no string"}}) {
    for (const std::string& text : {problem(good + line, "p"), problem(good + line, "p.jsonl")}) {
      EXPECT_NE(text.find(":2: "), std::string::npos) << text;
      EXPECT_NE(text.find(message), std::string::npos) << text;
    }
    EXPECT_NE(problem(line, "p.ndjson").find("p.ndjson:1: "), std::string::npos);
  }
  EXPECT_NE(problem("", "empty").find("empty: has no prompt"), std::string::npos);
  EXPECT_NE(problem("\n \n", "empty.jsonl").find("has no prompt"), std::string::npos);
}

TEST(PromptFile, BytesThatAreNoTextAreRefused) {
  const auto problem = [](std::string_view bytes) {
    return error_of(ErrorKind::kData, [&] { parse_prompts(bytes, "p.txt"); });
  };
  using namespace std::string_view_literals;
  EXPECT_NE(problem("\xFF\xFEt\0h\0e\0\n\0"sv).find("p.txt: is UTF-16 text: convert it with iconv"),
            std::string::npos);
  // Without the advice on files to train on, which says that the name must end in .gz.
  EXPECT_EQ(problem("\x1F\x8B\x08\0\0\0\0\0\0\x03"sv),
            "p.txt: is gzip data; give a file of text with a prompt a line, or JSON lines");
  EXPECT_EQ(texts("\xEF\xBB\xBFone\n"), (Texts{"one"})) << "a byte order mark of UTF-8";
}

TEST(PromptFile, AMissingFileAndAFolderAreRefused) {
  const testing::TemporaryFolder folder;
  EXPECT_NE(
      error_of(ErrorKind::kUsage, [&] { read_prompts(folder / "no"); }).find("does not exist"),
      std::string::npos);
  EXPECT_NE(error_of(ErrorKind::kUsage, [&] { read_prompts(folder.path()); }).find("is a folder"),
            std::string::npos);
}

}  // namespace
}  // namespace lmtrain
