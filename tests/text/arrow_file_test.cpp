// Parquet, Arrow files and Arrow streams: the same rows, whatever the table.
#include "text/arrow_file.h"

#include <arrow/util/compression.h>
#include <gtest/gtest.h>

#include "base/text.h"
#include "prepare/folder.h"
#include "text/arrow_files.h"
#include "text/documents.h"

namespace lmtrain {
namespace {

using testing::Rows;

Rows some_rows(int count) {
  Rows rows;
  for (int i = 0; i < count; ++i) {
    if (i % 11 == 3) {
      rows.emplace_back(std::nullopt);
    } else {
      rows.emplace_back(i % 13 == 5 ? std::string()
                                    : str("row ", i % 50, std::string(i % 31, 'x')));
    }
  }
  return rows;
}

Texts texts_of(const Rows& rows) {
  Texts texts;
  for (const auto& row : rows) {
    if (row) texts.push_back(*row);
  }
  return texts;
}

// Every way to write the same rows as a table: name and bytes.
std::vector<std::pair<std::string, std::string>> tables(const Rows& rows) {
  std::vector<std::pair<std::string, std::string>> files;
  const std::vector<std::shared_ptr<arrow::DataType>> types = {
      arrow::utf8(), arrow::large_utf8(), arrow::utf8_view(), arrow::binary(),
      arrow::dictionary(arrow::int32(), arrow::utf8())};
  for (const auto& type : types) {
    const auto table = testing::table_of(rows, "text", type);
    const std::string name = type->ToString().substr(0, 12);
    files.emplace_back(name + ".file.arrow", testing::arrow_file_bytes(*table));
    files.emplace_back(name + ".stream.arrow", testing::arrow_stream_bytes(*table));
    files.emplace_back(name + ".parquet", testing::parquet_bytes(*table));
    testing::ParquetOptions plain;
    plain.dictionary = false;
    plain.checksums = false;
    plain.compression = arrow::Compression::UNCOMPRESSED;
    files.emplace_back(name + ".plain.parquet", testing::parquet_bytes(*table, plain));
  }
  for (const auto codec : {arrow::Compression::GZIP, arrow::Compression::ZSTD,
                           arrow::Compression::LZ4, arrow::Compression::BROTLI}) {
    testing::ParquetOptions options;
    options.compression = codec;
    files.emplace_back(arrow::util::Codec::GetCodecAsString(codec) + ".parquet",
                       testing::parquet_bytes(*testing::table_of(rows), options));
  }
  return files;
}

TEST(TableReaders, GiveTheRowsOfTheColumnInOrder) {
  const Folder folder;
  const Rows rows = some_rows(1000);
  for (const auto& [name, bytes] : tables(rows)) {
    folder.write(name, bytes);
    const Read all = read(folder / name);
    EXPECT_EQ(all.texts, texts_of(rows)) << name;
    EXPECT_EQ(all.skipped.nulls, static_cast<int64_t>(rows.size() - all.texts.size())) << name;
    for (const int64_t first : {1, 63, 64, 65, 500, 999, 1000}) {
      const Read rest = read(folder / name, DataFormat::kAuto, "text", first);
      // What comes before may be left out, what comes after must not.
      EXPECT_LE(rest.texts.size(), all.texts.size());
      EXPECT_TRUE(std::equal(rest.texts.rbegin(), rest.texts.rend(), all.texts.rbegin())) << name;
      EXPECT_TRUE(
          std::equal(rest.positions.rbegin(), rest.positions.rend(), all.positions.rbegin()));
      EXPECT_EQ(std::count_if(rest.positions.begin(), rest.positions.end(),
                              [&](int64_t position) { return position >= first; }),
                std::count_if(all.positions.begin(), all.positions.end(),
                              [&](int64_t position) { return position >= first; }))
          << name << " from " << first;
    }
  }
}

TEST(TableReaders, OddText) {
  const Folder folder;
  const Rows rows = {std::string("nul \0 nul", 9), "invalid \xFF\xC3", "", "\r\n", std::nullopt,
                     std::string(200'000, 'y')};
  const auto table = testing::table_of(rows, "text", arrow::binary());
  EXPECT_EQ(read(folder.write("a.parquet", testing::parquet_bytes(*table))).texts, texts_of(rows));
  EXPECT_EQ(read(folder.write("a.arrow", testing::arrow_stream_bytes(*table))).texts,
            texts_of(rows));
  // The bytes of a text column are kept even where it breaks its promise of UTF-8.
  const auto text = testing::table_of(rows);
  EXPECT_EQ(read(folder.write("b.parquet", testing::parquet_bytes(*text))).texts, texts_of(rows));
  EXPECT_EQ(read(folder.write("b.arrow", testing::arrow_file_bytes(*text))).texts, texts_of(rows));
}

TEST(TableReaders, NoRows) {
  const Folder folder;
  for (const auto& [name, bytes] : tables({})) {
    EXPECT_EQ(read(folder.write(name, bytes)).texts, Texts()) << name;
  }
}

TEST(TableReaders, ColumnsInsideStructs) {
  const Folder folder;
  const auto inner = testing::text_array({"a", std::nullopt, "c"}, arrow::utf8());
  const auto none = testing::text_array({"x", "y", "z"}, arrow::utf8());
  // The second struct is null as a whole.
  const auto outer = *arrow::StructArray::Make(
      {none, inner}, std::vector<std::string>{"lang", "text"}, *arrow::AllocateBitmap(3), 0);
  std::shared_ptr<arrow::Array> with_null = outer;
  {
    auto data = outer->data()->Copy();
    auto bits = *arrow::AllocateBitmap(3);
    bits->mutable_data()[0] = 0b011;
    data->buffers[0] = std::move(bits);
    data->null_count = 1;
    with_null = arrow::MakeArray(data);
  }
  const auto table =
      arrow::Table::Make(arrow::schema({arrow::field("doc", with_null->type())}), {with_null});
  for (const auto& [name, bytes] : std::vector<std::pair<std::string, std::string>>{
           {"a.parquet", testing::parquet_bytes(*table)},
           {"a.arrow", testing::arrow_file_bytes(*table)},
           {"b.arrow", testing::arrow_stream_bytes(*table)}}) {
    folder.write(name, bytes);
    const Read result = read(folder / name, DataFormat::kAuto, "doc.text");
    EXPECT_EQ(result.texts, Texts({"a"})) << name;
    EXPECT_EQ(result.skipped.nulls, 2) << name;
    expect_contains(problem(folder / name, DataFormat::kAuto, "doc.txt"),
                    "did you mean \"doc.text\"");
  }
}

TEST(TableReaders, AColumnOfTheWholeNameComesBeforeOneInAStruct) {
  const Folder folder;
  const auto text = [](const char* value) { return testing::text_array({value}, arrow::utf8()); };
  const auto outer = *arrow::StructArray::Make({text("inside")}, std::vector<std::string>{"b"});
  const auto field = [](const char* name, const auto& array) {
    return arrow::field(name, array->type());
  };
  const auto both = arrow::Table::Make(arrow::schema({field("a", outer), field("a.b", text(""))}),
                                       {outer, text("whole")});
  const auto twice = arrow::Table::Make(
      arrow::schema({field("a.b", text("")), field("a.b", text(""))}), {text("x"), text("y")});
  const auto no_text =
      arrow::Table::Make(arrow::schema({field("a", outer), field("a.b", outer)}), {outer, outer});
  const std::vector<std::pair<std::string, std::string (*)(const arrow::Table&)>> writers = {
      {"a.parquet", [](const arrow::Table& table) { return testing::parquet_bytes(table); }},
      {"a.arrow", [](const arrow::Table& table) { return testing::arrow_file_bytes(table); }},
      {"b.arrow", [](const arrow::Table& table) { return testing::arrow_stream_bytes(table); }}};
  for (const auto& [name, write] : writers) {
    EXPECT_EQ(read(folder.write(name, write(*both)), DataFormat::kAuto, "a.b").texts,
              Texts({"whole"}));
    expect_contains(problem(folder.write(name, write(*twice)), DataFormat::kAuto, "a.b"),
                    "two columns \"a.b\"");
    expect_contains(problem(folder.write(name, write(*no_text)), DataFormat::kAuto, "a.b"),
                    "instead of text");
  }
}

TEST(TableReaders, WrongColumns) {
  const Folder folder;
  const auto table = testing::table_of({"a"}, "content");
  for (const auto& [name, bytes] : std::vector<std::pair<std::string, std::string>>{
           {"a.parquet", testing::parquet_bytes(*table)},
           {"a.arrow", testing::arrow_file_bytes(*table)},
           {"b.arrow", testing::arrow_stream_bytes(*table)}}) {
    folder.write(name, bytes);
    expect_contains(problem(folder / name), name);
    expect_contains(problem(folder / name), "\"id\", \"content\", \"other\"");
    expect_contains(problem(folder / name, DataFormat::kAuto, "contents"),
                    "did you mean \"content\"");
    expect_contains(problem(folder / name, DataFormat::kAuto, "id"), "instead of text");
  }
}

TEST(TableReaders, FilesOfAnotherKind) {
  const Folder folder;
  for (const char* text : {"", "x", "PAR1", "PAR1PAR1", "ARROW1", "ARROW1\0\0ARROW1",
                           "just some text that is long enough to hold a footer"}) {
    for (const char* name : {"a.parquet", "a.arrow"})
      expect_contains(problem(folder.write(name, text)), name);
  }
  const auto table = testing::table_of({"a"});
  expect_contains(problem(folder.write("b.parquet", testing::arrow_file_bytes(*table))),
                  "b.parquet");
  expect_contains(problem(folder.write("b.arrow", testing::parquet_bytes(*table))), "b.arrow");
}

TEST(TableReaders, CutAnywhereIsAnError) {
  const Folder folder;
  for (const auto& [name, bytes] : tables(some_rows(40))) {
    for (size_t size = 0; size < bytes.size();
         size += size < 300 || size + 300 > bytes.size() ? 1 : 7)
      expect_contains(problem(folder.write(name, bytes.substr(0, size))), name);
    if (name.find("stream") != std::string::npos)
      expect_contains(problem(folder.write(name, bytes + bytes)), "the stream ends at byte ");
  }
}

TEST(TableReaders, ChangedBytesNeverCrash) {
  const Folder folder;
  int noticed = 0;
  for (const auto& [name, bytes] : tables(some_rows(40))) {
    for (size_t offset = 0; offset < bytes.size(); offset += 3) {
      std::string damaged = bytes;
      damaged[offset] = static_cast<char>(damaged[offset] ^ (1 << (offset % 8)));
      folder.write(name, damaged);
      try {
        read(folder / name);
      } catch (const Error& error) {
        EXPECT_EQ(error.kind(), ErrorKind::kData) << error.what();
        ++noticed;
      }
    }
  }
  EXPECT_GT(noticed, 100);
}

// Rows are numbered by what the groups say of themselves: positions would not ascend.
TEST(TableReaders, ARowGroupOfNegativeLengthIsNamed) {
  const Folder folder;
  const std::filesystem::path found =
      str(LMTRAIN_SOURCE_DIR, "/tests/fuzz/corpus/parquet/finding_negative_rows_of_a_group");
  folder.write("a.parquet", read_file(found));
  expect_contains(problem(folder / "a.parquet"), "a.parquet: row group 0 says that it has -");
}

// Its header asks for 1.98 GB.
TEST(TableReaders, APageLargerThanItsColumnTakesNoMemory) {
  const Folder folder;
  const std::filesystem::path found =
      str(LMTRAIN_SOURCE_DIR, "/tests/fuzz/corpus/parquet/finding_page_larger_than_its_column");
  folder.write("a.parquet", read_file(found));
  const int64_t before = arrow::default_memory_pool()->total_bytes_allocated();
  expect_contains(problem(folder / "a.parquet"), "Page was smaller (47) than expected");
  EXPECT_LT(arrow::default_memory_pool()->total_bytes_allocated() - before, int64_t{1} << 20);
}

// A column of a row group that is not read as a whole.
TEST(TableReaders, ALongColumnIsReadPageByPage) {
  Rows rows;
  for (int i = 0; i < 4000; ++i) rows.emplace_back(str("row ", i, std::string(5000, 'x')));
  testing::ParquetOptions plain;
  plain.rows_per_group = 4000;
  plain.page_bytes = 1 << 20;
  plain.dictionary = false;
  plain.compression = arrow::Compression::UNCOMPRESSED;
  const Folder folder;
  const std::string bytes = testing::parquet_bytes(*testing::table_of(rows), plain);
  ASSERT_GT(bytes.size(), 17U << 20);
  EXPECT_EQ(read(folder.write("a.parquet", bytes)).texts, texts_of(rows));
}

TEST(TableReaders, AnEntryThatADictionaryLacksIsNamedByItsRow) {
  const Folder folder;
  arrow::Int32Builder entries;
  ASSERT_TRUE(entries.AppendValues({0, 1, 9, 0}).ok());
  const auto text = std::make_shared<arrow::DictionaryArray>(
      arrow::dictionary(arrow::int32(), arrow::utf8()), *entries.Finish(),
      testing::text_array({"a", "b"}, arrow::utf8()));
  const auto table =
      arrow::Table::Make(arrow::schema({arrow::field("text", text->type())}), {text});
  folder.write("a.arrow", testing::arrow_file_bytes(*table));
  expect_contains(problem(folder / "a.arrow"), "row 2: entry 9 of a dictionary of 2");
}

// A batch whose compressed text claims three GiB, in a file of a few KiB.
TEST(TableReaders, ABufferAboveTheLimitIsRefusedByName) {
  const Folder folder;
  constexpr int64_t kSize = 1 << 20;
  std::string bytes = testing::arrow_stream_bytes(*testing::table_of({std::string(kSize, 'a')}), 64,
                                                  arrow::Compression::ZSTD);
  ASSERT_LT(bytes.size(), 16U << 10);
  const auto size_and_frame = [](int64_t size) {
    return std::string(reinterpret_cast<const char*>(&size), sizeof size) + "\x28\xB5\x2F\xFD";
  };
  const size_t at = bytes.find(size_and_frame(kSize));
  ASSERT_NE(at, std::string::npos);
  const std::string claim = size_and_frame(int64_t{3} << 30);
  bytes.replace(at, claim.size(), claim);
  const std::string message = problem(folder.write("bomb.arrow", bytes));
  expect_contains(message, "bomb.arrow: row 0: a page or batch of 3.0 GiB");
  expect_contains(message, "data.max_document");
}

// A shard whose texts are all missing, with or without a type, is a shard of nulls in every format.
TEST(TableReaders, AColumnOfNullsAlone) {
  const Folder folder;
  const testing::Rows rows(200);
  const auto nulls = std::make_shared<arrow::NullArray>(200);
  const auto untyped = arrow::Table::Make(
      arrow::schema({arrow::field("text", arrow::null()), arrow::field("a", arrow::null())}),
      {nulls, nulls});
  std::vector<std::shared_ptr<arrow::Table>> all = {untyped};
  for (const auto& type : {arrow::utf8(), arrow::large_utf8(), arrow::binary(), arrow::utf8_view(),
                           arrow::dictionary(arrow::int32(), arrow::utf8())})
    all.push_back(testing::table_of(rows, "text", type));
  for (const auto& table : all) {
    for (const auto& [name, bytes] : std::vector<std::pair<std::string, std::string>>{
             {"a.parquet", testing::parquet_bytes(*table)},
             {"plain.parquet", testing::parquet_bytes(*table, {.dictionary = false})},
             {"a.arrow", testing::arrow_file_bytes(*table)},
             {"b.arrow", testing::arrow_stream_bytes(*table)}}) {
      const Read result = read(folder.write(name, bytes));
      EXPECT_EQ(result.texts, Texts()) << name << " " << table->schema()->ToString();
      EXPECT_EQ(result.skipped.nulls, 200) << name << " " << table->schema()->ToString();
    }
  }
  for (const auto& [name, bytes] : std::vector<std::pair<std::string, std::string>>{
           {"a.parquet", testing::parquet_bytes(*untyped)},
           {"a.arrow", testing::arrow_file_bytes(*untyped)}})
    EXPECT_EQ(read(folder.write(name, bytes), DataFormat::kAuto, "a.b").skipped.nulls, 200);
}

}  // namespace
}  // namespace lmtrain
