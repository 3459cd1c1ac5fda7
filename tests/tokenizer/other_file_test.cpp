#include "tokenizer/other_file.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "prepare/folder.h"
#include "tokenizer/tokenizer.h"

namespace lmtrain {
namespace {

using namespace std::string_literals;

struct Other {
  std::string bytes;
  std::string_view kind;
};

const Other kOthers[] = {
    {"", "empty"},
    {R"({"a": 1})", "JSON"},
    {"[1, 2]", "JSON"},
    {"{ no json", "text"},
    {"IQ== 0\nIg== 1\n", "tiktoken"},
    {"# version: 0.2\na b\n", "text"},
    {"caf\xC3\xA9\n", "text"},
    {"\x02\0\0\0\0\0\0\0{}"s, "safetensors"},
    {"PK\x03\x04rest", "zip"},
    {"\x1F\x8B\x08rest", "gzip"},
};

TEST(OtherFile, IsNamedByItsContent) {
  for (const Other& other : kOthers)
    expect_contains(other_than_sentencepiece(other.bytes), other.kind);
}

TEST(OtherFile, AModelAndUnknownBytesAreLeftToItsReader) {
  EXPECT_EQ(other_than_sentencepiece(read_file(kTokenizerModel)), "");
  EXPECT_EQ(other_than_sentencepiece("\x0A\x01\x02"s), "");
}

// The message is ours alone, with what to do.
TEST(OtherFile, AsATokenizerIsRefusedWithACure) {
  const Folder folder;
  for (const Other& other : kOthers) {
    const auto file = folder.write("tokenizer.json", other.bytes);
    const std::string message = error_of(ErrorKind::kData, [&] { Tokenizer::load(file); });
    expect_contains(message, file.string() + " is not a sentencepiece model: it is ");
    expect_contains(message, other.kind);
    expect_contains(message, "give the sentencepiece model");
    EXPECT_EQ(message.find(".cc"), std::string::npos) << message;
  }
}

}  // namespace
}  // namespace lmtrain
