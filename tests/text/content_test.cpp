#include "text/content.h"

#include <gtest/gtest.h>

#include "prepare/folder.h"

namespace lmtrain {
namespace {

using Kind = Content::Kind;

Kind kind_of(std::string_view head, bool is_whole = true, bool is_named_json = false) {
  return content_of(head, is_whole, is_named_json, "text").kind;
}

TEST(ContentOf, JsonLines) {
  EXPECT_EQ(kind_of("{\"text\": \"a\"}"), Kind::kJsonLines);
  EXPECT_EQ(kind_of("\xEF\xBB\xBF\n{\"text\": \"a\"}\r\n\n{\"id\": 2}"), Kind::kJsonLines);
  EXPECT_EQ(kind_of("{\"text\": null}\n"), Kind::kJsonLines);
  EXPECT_EQ(kind_of("{\"text\": \"a\"}\n{\"te"), Kind::kJsonLines) << "its reader finds the line";
  EXPECT_EQ(kind_of("{\"text\": \"a\"}\n{\"te", false), Kind::kJsonLines);
}

TEST(ContentOf, AFirstLineLongerThanTheHead) {
  const std::string line = "{\"id\": 1, \"meta\": [true, null, -1.5e3], \"text\": \"a \\u00e9 b\"}";
  for (size_t size = 2; size < line.size(); ++size)
    EXPECT_EQ(kind_of(line.substr(0, size), false), Kind::kJsonLines) << size;
  EXPECT_EQ(kind_of("{not json, and more of it", false), Kind::kText);
}

TEST(ContentOf, OtherJson) {
  EXPECT_EQ(kind_of("{\"id\": 1}\n{\"id\": 2}\n"), Kind::kJson);
  EXPECT_EQ(kind_of("{\"text\": 5}\n"), Kind::kJson);
  EXPECT_EQ(kind_of("{\n  \"text\": \"a\"\n}\n"), Kind::kJson);
  EXPECT_EQ(kind_of("{\n  \"text\": \"a", false), Kind::kJson);
  EXPECT_EQ(kind_of("[{\"text\": \"a\"},\n {\"text\": \"b\"}]"), Kind::kJsonArray);
  EXPECT_EQ(kind_of("[{\"text\": \"a\"},\n {\"text\": \"b", false), Kind::kJsonArray);
  EXPECT_EQ(kind_of("[{\"x\": {\"y\": \"}\"}, \"text\": null}]"), Kind::kJsonArray);
  EXPECT_EQ(kind_of("[\"a\"]"), Kind::kJsonArray);
  EXPECT_EQ(kind_of("[{\"id\": 1}]"), Kind::kJson);
  EXPECT_EQ(kind_of("[1, 2]"), Kind::kJson);
  EXPECT_EQ(kind_of("{\n} {\n}", true, true), Kind::kJson);
  EXPECT_EQ(kind_of("prose", true, true), Kind::kJson);
}

TEST(ContentOf, Text) {
  EXPECT_EQ(kind_of(""), Kind::kText);
  EXPECT_EQ(kind_of(" \n", true, true), Kind::kText);
  EXPECT_EQ(kind_of("{"), Kind::kText);
  EXPECT_EQ(kind_of("{ int x; }"), Kind::kText);
  EXPECT_EQ(kind_of("[1] note\n[2] note\n"), Kind::kText);
  EXPECT_EQ(kind_of("{\n} {\n}"), Kind::kText);
  EXPECT_EQ(kind_of("caf\xE9 in Latin-1"), Kind::kText);
  EXPECT_EQ(kind_of("\x1B[31mred\x1B[0m\f\b"), Kind::kText);
}

TEST(LookAt, LongLinesAndCompressedFiles) {
  const Folder folder;
  const std::string line = "{\"a\": \"" + std::string(100'000, 'x') + "\", \"text\": \"b\"}\n";
  EXPECT_EQ(look_at(folder.write("a.json", line + line), "text").kind, Kind::kJsonLines);
  const std::string other = "{\"a\": \"" + std::string(100'000, 'x') + "\"}\n";
  EXPECT_EQ(look_at(folder.write("b.json", other + other), "text").kind, Kind::kJson);
  EXPECT_EQ(look_at(folder.write("c.txt", std::string(100'000, 'x')), "text").kind, Kind::kText);
}

TEST(ContentOf, PointersOfToolsAreNoText) {
  const std::string pointer =
      "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n";
  const Content content = content_of(pointer, true, false, "text");
  EXPECT_EQ(content.kind, Kind::kPointer);
  expect_contains(content.description, "git lfs pull");
}

TEST(OtherThanIds, KnowsForeignLayouts) {
  const auto bytes = [](const auto& literal) { return std::string(literal, sizeof literal - 1); };
  const std::string ids(4096, '\1');
  const std::vector<std::pair<std::string, const char*>> foreign = {
      {bytes("LITPKDS\1\0\0\0\0\0\0\0\0\2\0\0\0"), "lit-gpt"},
      {bytes("PK\x03\x04"), "zip"},
      {bytes("\x1F\x8B\x08\0"), "gzip"},
      {bytes("\x28\xB5\x2F\xFD"), "zstd"},
      {bytes("MMIDIDX\0\0"), "index of Megatron"},
      {bytes("TNTIDX\0\0"), "fairseq"},
      {bytes("\x89HDF\r\n\x1A\n"), "HDF5"},
      {bytes("SQLite format 3\0"), "SQLite"},
      {bytes("\x7F"
             "ELF"),
       "ELF"},
      {bytes("%PDF-1.4\n\xFF"), "PDF"},
      {bytes("GGUF"), "GGUF"},
      {bytes("\xC8\xD6\x34\x01"), "llm.c"},
      {bytes("\x0A\0\0\0\0\0\0\0{\"a\":1}  "), "safetensors"},
  };
  for (const auto& [head, name] : foreign) expect_contains(other_than_ids(head + ids), name);
  expect_contains(other_than_ids("PAR1" + ids + "PAR1"), "Parquet");
  expect_contains(other_than_ids("\x80\x04\x95" + ids + "."), "pickle");
  expect_contains(other_than_ids(std::string(100, 'a')), "text");
  expect_contains(other_than_ids("{\"text\": \"" + std::string(100, 'a') + "\"}\n"), "text");
  expect_contains(other_than_ids("\xFF\xFE" + bytes("t\0e\0x\0t\0 \0o\0f\0 \0i\0t\0")), "UTF-16");
  EXPECT_EQ(other_than_ids(ids), "");
  EXPECT_EQ(other_than_ids(""), "");
  // Ids may have the bytes of a short magic.
  EXPECT_EQ(other_than_ids("\x1F\x8B" + ids), "");
  EXPECT_EQ(other_than_ids("\x80\x02" + ids), "");
  EXPECT_EQ(other_than_ids("BZh" + ids), "");
  for (const std::string few : {"BZh", "\xFF\xD8\xFF", "\x1F\x8B", "MZ\x90", "ORC\x0A", "\x80"}) {
    EXPECT_EQ(other_than_ids(few), "");
  }
}

TEST(OtherThanIds, KnowsShardsThatBeginWithATableOfOffsets) {
  const auto put = [](std::string& out, uint32_t value) {
    out.append(reinterpret_cast<const char*>(&value), sizeof value);
  };
  std::string litdata;
  for (const uint32_t value : {2U, 16U, 26U, 36U}) put(litdata, value);
  expect_contains(other_than_ids(litdata + std::string(20, '\1')), "litdata");
  std::string mds;
  for (const uint32_t value : {2U, 32U, 42U, 52U}) put(mds, value);
  expect_contains(other_than_ids(mds + "{\"version\": 2}  " + std::string(20, '\1')), "MosaicML");
  EXPECT_EQ(other_than_ids(litdata + std::string(21, '\1')), "");
}

}  // namespace
}  // namespace lmtrain
