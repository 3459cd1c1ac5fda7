#include "formats/token_file.h"

#include <gtest/gtest.h>

#include "base/support.h"
#include "formats/token_bytes.h"

namespace lmtrain {
namespace {

using testing::error_of;
using testing::ids_as;
using testing::numpy_bytes;

class TokenFile : public ::testing::Test {
 protected:
  void write(const std::string& name, const std::string& bytes) const {
    std::filesystem::remove(folder_ / name);
    FileWriter writer(folder_ / name);
    writer.write(bytes);
  }
  TokenFileLayout layout(const std::string& name, int64_t vocab_size = 60000,
                         uint32_t width = 0) const {
    return read_token_file_layout(MappedFile(folder_ / name), vocab_size, width);
  }
  TokenFileLayout layout_of(const std::string& bytes, int64_t vocab_size = 60000,
                            uint32_t width = 0) const {
    write("file.bin", bytes);
    return layout("file.bin", vocab_size, width);
  }
  std::string problem(const std::string& bytes) const {
    return error_of(ErrorKind::kData, [&] { layout_of(bytes); });
  }
  static void expect(const TokenFileLayout& layout, const char* name, uint64_t begin,
                     uint64_t num_tokens, uint32_t width) {
    EXPECT_EQ(layout.name, name);
    EXPECT_EQ(layout.begin, begin);
    EXPECT_EQ(layout.num_tokens, num_tokens);
    EXPECT_EQ(layout.bytes_per_token, width);
  }

  testing::TemporaryFolder folder_;
  std::vector<int32_t> ids_ = std::vector<int32_t>(100, 7);
};

TEST_F(TokenFile, PlainIdsByTheVocabulary) {
  expect(layout_of(ids_as<uint16_t>(ids_)), "plain ids", 0, 100, 2);
  expect(layout_of(ids_as<uint32_t>(ids_), 70000), "plain ids", 0, 100, 4);
  expect(layout_of(""), "plain ids", 0, 0, 2);
  EXPECT_NE(problem("odd").find("no multiple of 2"), std::string::npos);
}

// The same bytes may be ids of either width: nobody guesses which.
TEST_F(TokenFile, TheWidthOfPlainIdsIsNotGuessed) {
  std::vector<int32_t> pairs;
  for (int i = 0; i < 400; ++i) pairs.insert(pairs.end(), {5, 0});
  for (const std::string& bytes : {ids_as<uint16_t>(pairs), ids_as<uint32_t>(ids_),
                                   ids_as<uint16_t>({5, 0}), ids_as<uint32_t>({59999})}) {
    EXPECT_NE(problem(bytes).find("data.token_dtype \"uint16\" or \"uint32\""), std::string::npos);
    expect(layout_of(bytes, 60000, 2), "plain ids", 0, bytes.size() / 2, 2);
    expect(layout_of(bytes, 60000, 4), "plain ids", 0, bytes.size() / 4, 4);
  }
  // Only one fits: an odd number of ids, or one that would be outside the vocabulary.
  expect(layout_of(ids_as<uint16_t>({5, 0, 5})), "plain ids", 0, 3, 2);
  expect(layout_of(ids_as<uint16_t>({5, 0, 5, 1})), "plain ids", 0, 4, 2);
  expect(layout_of(ids_as<uint16_t>({7, 1}), 70000), "plain ids", 0, 1, 4);
  expect(layout_of(ids_as<uint16_t>({7, 8, 9}), 70000, 2), "plain ids", 0, 3, 2);
  EXPECT_NE(error_of(ErrorKind::kData,
                     [&] {
                       layout_of(ids_as<uint16_t>({7, 8, 9}), 70000);
                     })
                .find("data.token_dtype \"uint16\""),
            std::string::npos);
}

TEST_F(TokenFile, AFileThatSaysItsWidthMayNotBeContradicted) {
  const auto contradiction = [&](const std::string& bytes, uint32_t width) {
    return error_of(ErrorKind::kData, [&] { layout_of(bytes, 60000, width); });
  };
  const std::string array = numpy_bytes("<u2", ids_as<uint16_t>(ids_), ids_.size());
  expect(layout_of(array, 60000, 2), "numpy", array.size() - 200, 100, 2);
  EXPECT_NE(contradiction(array, 4).find("data.token_dtype says 4"), std::string::npos);
  EXPECT_NE(contradiction(testing::llmc_bytes(ids_, true), 4).find("llm.c"), std::string::npos);
  EXPECT_NE(contradiction(testing::llmc_bytes(ids_, false), 2).find("llm.c"), std::string::npos);
}

TEST_F(TokenFile, LlmcBothVersions) {
  const TokenFileLayout gpt2 = layout_of(testing::llmc_bytes(ids_, true));
  expect(gpt2, "llm.c", 1024, 100, 2);
  EXPECT_EQ(gpt2.document_begins_with, 50256);
  const TokenFileLayout llama3 = layout_of(testing::llmc_bytes(ids_, false));
  expect(llama3, "llm.c", 1024, 100, 4);
  EXPECT_EQ(llama3.document_begins_with, 128000);
  const std::string whole = testing::llmc_bytes(ids_, true);
  for (size_t size = 4; size < whole.size(); size += size < 1024 ? 85 : 3)
    problem(whole.substr(0, size));
  problem(whole + "xx");
  std::string version = whole;
  version[4] = 9;
  EXPECT_NE(problem(version).find("version 9"), std::string::npos);
}

TEST_F(TokenFile, NumpyArrays) {
  for (const auto& [type, width] : {std::pair{"<u2", 2U}, {"<u4", 4U}, {"<i4", 4U}, {"<i8", 8U}}) {
    const std::string data(100UL * width, '\1');
    const std::string bytes = numpy_bytes(type, data, 100);
    expect(layout_of(bytes), "numpy", bytes.size() - data.size(), 100, width);
    for (size_t size = 6; size < bytes.size(); size += 5) problem(bytes.substr(0, size));
    problem(bytes + data);
  }
  const std::string data(200, '\1');
  for (const char* type : {">u2", "<f4", "|S2", "", "<u3"})
    EXPECT_NE(problem(numpy_bytes(type, data, 100)).find("no little-endian integer"),
              std::string::npos)
        << type;
  EXPECT_NE(problem(numpy_bytes("<u2", data, 99)).find("shape"), std::string::npos);
  std::string matrix = numpy_bytes("<u2", data, 100);
  matrix.replace(matrix.find("(100,)"), 8, "(10, 10)");
  EXPECT_NE(problem(matrix).find("flat array"), std::string::npos);
}

TEST_F(TokenFile, MegatronByItsIndex) {
  write("a.bin", ids_as<uint16_t>(std::vector<int32_t>(10, 3)));
  // Three documents: of the sequences 4 + 1, none, 5.
  const std::string index = testing::megatron_index(8, 2, {4, 1, 5}, {0, 2, 2, 3});
  write("a.idx", index);
  const TokenFileLayout result = layout("a.bin");
  expect(result, "Megatron", 0, 10, 2);
  EXPECT_EQ(result.document_ends, std::vector<uint64_t>({5, 5, 10}));
  write("a.idx", index + "\0\0\0");  // modes
  EXPECT_TRUE(is_token_file_index("x/a.idx"));
  EXPECT_FALSE(is_token_file_index("x/a.bin"));

  write("b.bin", ids_as<int32_t>(std::vector<int32_t>(10, 3)));
  write("b.idx", testing::megatron_index(4, 4, {10}, {0, 1}));
  expect(layout("b.bin"), "Megatron", 0, 10, 4);
}

TEST_F(TokenFile, DamagedMegatronIndex) {
  write("a.bin", ids_as<uint16_t>(std::vector<int32_t>(10, 3)));
  const auto expect_problem = [&](const std::string& index) {
    write("a.idx", index);
    EXPECT_NE(error_of(ErrorKind::kData, [&] { layout("a.bin"); }).find("a.idx"),
              std::string::npos);
  };
  const std::string index = testing::megatron_index(8, 2, {4, 1, 5}, {0, 2, 3});
  for (size_t size = 0; size < index.size(); ++size) expect_problem(index.substr(0, size));
  // Every byte means something: a flip is noticed, but in an unused part of a boundary.
  int unnoticed = 0;
  for (size_t offset = 0; offset < index.size(); ++offset) {
    std::string damaged = index;
    damaged[offset] = static_cast<char>(damaged[offset] ^ 0x40);
    write("a.idx", damaged);
    try {
      layout("a.bin");
      ++unnoticed;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kData);
    }
  }
  EXPECT_EQ(unnoticed, 0);
  expect_problem(testing::megatron_index(8, 2, {4, 1, 4}, {0, 2, 3}));  // not all ids
  expect_problem(testing::megatron_index(8, 2, {4, 1, 6}, {0, 2, 3}));  // more ids than there are
  expect_problem(testing::megatron_index(8, 2, {4, 1, 5}, {0, 2}));     // a sequence in no document
  expect_problem(testing::megatron_index(8, 2, {4, 1, 5}, {1, 3}));     // the same at the front
  expect_problem(testing::megatron_index(7, 4, {5}, {0, 1}));           // floats
  expect_problem(testing::megatron_index(8, 2, {4, -1, 7}, {0, 2, 3}));
}

}  // namespace
}  // namespace lmtrain
