#include "corpus/readers/readers.h"

#include <arrow/util/compression.h>
#include <gtest/gtest.h>

#include "base/text.h"
#include "corpus/folder.h"
#include "corpus/readers/arrow_files.h"
#include "corpus/sources/format.h"

namespace lmtrain {
namespace {

using testing::Rows;
using Texts = std::vector<std::string>;

struct Read {
  Texts texts;
  std::vector<int64_t> positions;
  NoDocuments skipped;
};

Read read(const std::filesystem::path& path, DataFormat format = DataFormat::kAuto,
          const std::string& field = "text", int64_t first = 0) {
  Read result;
  const std::string by_name = format_by_name(path, format);
  const auto reader = open_documents(path, by_name.empty() ? "text" : by_name, field, first);
  int64_t last = -1;
  for (Document document; reader->next(document);) {
    EXPECT_GT(document.position, last);
    last = document.position;
    result.texts.emplace_back(document.text);
    result.positions.push_back(last);
  }
  Document none;
  EXPECT_FALSE(reader->next(none)) << "the end stays the end";
  result.skipped = reader->skipped();
  return result;
}

std::string problem(const std::filesystem::path& path, DataFormat format = DataFormat::kAuto,
                    const std::string& field = "text") {
  return error_of(ErrorKind::kData, [&] { read(path, format, field); });
}

const Compression kCompressions[] = {Compression::kGzip, Compression::kZstd, Compression::kBzip2};
const char* const kExtensions[] = {".gz", ".zst", ".bz2"};

TEST(TextReader, IsTheFileByteForByte) {
  const Folder folder;
  const std::string odd("\xEF\xBB\xBF line\r\n\0\xFF\n\n", 12);
  EXPECT_EQ(read(folder.write("odd.txt", odd)).texts, Texts({odd}));
  EXPECT_EQ(read(folder.write("empty.txt", "")).texts, Texts({""}))
      << "an empty file is an empty document";
  const std::string big(5'000'000, 'b');
  EXPECT_EQ(read(folder.write("big", big)).texts, Texts({big}));
}

TEST(LinesReader, EndsAndBlankLines) {
  const Folder folder;
  const Read result =
      read(folder.write("a.txt", std::string("one\r\n\n two \n\r\nth\0ree\nlast", 25)),
           DataFormat::kLines);
  EXPECT_EQ(result.texts, Texts({"one", " two ", std::string("th\0ree", 6), "last"}));
  EXPECT_EQ(result.positions, std::vector<int64_t>({0, 1, 2, 3}));
  EXPECT_EQ(result.skipped.blank_lines, 2);
  EXPECT_EQ(read(folder.write("b.txt", ""), DataFormat::kLines).texts, Texts());
  EXPECT_EQ(read(folder.write("c.txt", "x\n"), DataFormat::kLines).texts, Texts({"x"}));
}

TEST(LinesReader, LinesLongerThanAnyBuffer) {
  const Folder folder;
  const std::string a(3'000'001, 'a');
  const std::string b((1 << 20) - 1, 'b');
  EXPECT_EQ(read(folder.write("a.txt", a + "\n" + b + "\n\nc"), DataFormat::kLines).texts,
            Texts({a, b, "c"}));
}

TEST(CompressedFiles, AnyNumberOfMembersReadsLikeTheWhole) {
  const Folder folder;
  std::string text;
  for (int i = 0; i < 40000; ++i) text += str("line ", i * i, '\n');
  for (size_t i = 0; i < 3; ++i) {
    const auto pack = [&](std::string_view bytes) {
      return testing::compressed(bytes, kCompressions[i]);
    };
    const std::string name = str("a.txt", kExtensions[i]);
    EXPECT_EQ(read(folder.write(name, pack(text))).texts, Texts({text}));
    const std::string members = pack(std::string_view(text).substr(0, 1000)) + pack("") +
                                pack(std::string_view(text).substr(1000, 200'000)) +
                                pack(std::string_view(text).substr(201'000)) + pack("");
    EXPECT_EQ(read(folder.write(name, members)).texts, Texts({text}));
    EXPECT_EQ(read(folder / name, DataFormat::kLines).texts.size(), 40000U);
    EXPECT_EQ(read(folder.write(str("e", kExtensions[i]), pack(""))).texts, Texts({""}));
  }
}

TEST(CompressedFiles, CutOrChangedAnywhereIsAnError) {
  const Folder folder;
  std::string text;
  for (int i = 0; i < 40; ++i) text += str("{\"text\": \"line ", i * i * i, "\"}\n");
  for (size_t i = 0; i < 3; ++i) {
    const std::string whole = testing::compressed(text, kCompressions[i]);
    const std::string name = str("a.jsonl", kExtensions[i]);
    for (size_t size = 0; size < whole.size(); ++size) {
      const std::string message = problem(folder.write(name, whole.substr(0, size)));
      expect_contains(message, name);
      expect_contains(message, "damaged or cut short at byte ");
    }
    for (const char* tail : {"x", "garbage", "{\"text\": \"not compressed\"}\n"})
      expect_contains(problem(folder.write(name, whole + tail)), name);
    // A flip is noticed, or, where nothing checks it, still no crash.
    for (size_t offset = 0; offset < whole.size(); ++offset) {
      std::string damaged = whole;
      damaged[offset] = static_cast<char>(damaged[offset] ^ (1 << (offset % 8)));
      folder.write(name, damaged);
      try {
        read(folder / name);
      } catch (const Error& error) {
        EXPECT_EQ(error.kind(), ErrorKind::kData);
      }
    }
  }
}

TEST(CompressedFiles, FilesOfAnotherKindAreRefused) {
  const Folder folder;
  for (const char* extension : kExtensions)
    expect_contains(problem(folder.write(str("plain.txt", extension), "just text\n")), "plain.txt");
}

TEST(JsonLinesReader, Strings) {
  const Folder folder;
  const auto path =
      folder.write("a.jsonl",
                   "\xEF\xBB\xBF{\"text\": \"a\\u00e9\\n\\ud83d\\ude00\"}\r\n"
                   "\n"
                   "  {\"id\": [1, {\"text\": 5}], \"text\": \"\", \"other\": \"o\"}  \n"
                   "{\"text\": \"\\u0000\\ufeff\"}\n"
                   " \t \r\n"
                   "{\"text\": null}\n"
                   "{\"t\\u0065xt\": \"escaped key\"}");
  const Read result = read(path);
  EXPECT_EQ(result.texts, Texts({"a\xC3\xA9\n\xF0\x9F\x98\x80", "",
                                 std::string("\0\xEF\xBB\xBF", 4), "escaped key"}));
  EXPECT_EQ(result.positions, std::vector<int64_t>({0, 1, 2, 3}));
  EXPECT_EQ(result.skipped.blank_lines, 2);
  EXPECT_EQ(result.skipped.nulls, 1);
}

TEST(JsonLinesReader, NumbersThatFitNoTypeAreStillJson) {
  const Folder folder;
  const auto path =
      folder.write("a.jsonl",
                   "{\"id\": 123456789012345678901234567890, \"text\": \"a\\u00e9\"}\n"
                   "{\"x\": [0.1e-999, -99999999999999999999], \"text\": \"b\"}\n");
  EXPECT_EQ(read(path).texts, Texts({"a\xC3\xA9", "b"}));
}

TEST(JsonLinesReader, FieldsInsideObjects) {
  const Folder folder;
  const auto path = folder.write("a.jsonl",
                                 "{\"a\": {\"b\": \"inside\", \"c\": {\"b\": \"no\"}}}\n"
                                 "{\"a\": {\"b\": \"no\"}, \"a.b\": \"the whole name\"}\n"
                                 "{\"a\": {\"b\": null}}\n");
  const Read result = read(path, DataFormat::kAuto, "a.b");
  EXPECT_EQ(result.texts, Texts({"inside", "the whole name"}));
  EXPECT_EQ(result.skipped.nulls, 1);
  expect_contains(problem(folder.write("b.jsonl", "{\"a\": [{\"b\": \"in a list\"}]}"),
                          DataFormat::kAuto, "a.b"),
                  "no field \"a.b\"");
}

TEST(JsonLinesReader, LongAndDeepLines) {
  const Folder folder;
  const std::string text(3'000'000, 'x');
  const std::string deep(200'000, '[');
  const auto path =
      folder.write("a.jsonl", str("{\"text\": \"", text, "\"}\n{\"text\": \"b\", \"deep\": ", deep,
                                  std::string(deep.size(), ']'), "}\n"));
  EXPECT_EQ(read(path).texts, Texts({text, "b"}));
  expect_contains(problem(folder.write("b.jsonl", "{\"text\": " + deep)), "b.jsonl:1: not JSON");
}

TEST(JsonLinesReader, BadLinesNameFileAndLine) {
  const Folder folder;
  const auto message = [&](const std::string& line, const std::string& field = "text") {
    return problem(folder.write("bad.jsonl", "{\"text\": \"fine\", \"content\": \"x\"}\n\n" + line +
                                                 "\n{\"text\": \"fine\"}\n"),
                   DataFormat::kAuto, field);
  };
  const std::string location = folder.str("bad.jsonl:3: ");
  for (const char* line :
       {"{\"text\": \"a\"", "nonsense", "{\"text\": \"\xFF\"}", "{\"text\": \"\\ud800\"}", "{} {}",
        "{\"text\": \"a\", \"id\": tru}", "{\"text\": \"a\", \"id\": 1.2.3}", "{\"text\": \"a\"} x",
        "{\"text\": \"a\",}", "\xEF\xBB\xBF{\"text\": \"a\"}", "{\"text\": \"tab\there\"}"}) {
    expect_contains(message(line), location);
    expect_contains(message(line), "not JSON at column");
  }
  expect_contains(message("{\"texts\": \"a\"}"), "did you mean \"texts\"");
  expect_contains(message("{\"body\": \"a\", \"id\": 1}"), "\"body\", \"id\"");
  expect_contains(message("{\"text\": 5}"), location + "field \"text\" is number");
  expect_contains(message("{\"text\": [\"a\"]}"), "field \"text\" is array");
  expect_contains(message("{\"text\": \"a\", \"text\": \"a\"}"), "2 times");
  expect_contains(message("[\"a\"]"), "array instead of an object");
  expect_contains(message("3"), "number instead of an object");
}

TEST(JsonLinesReader, CutAnywhereIsAnErrorUnlessBetweenLines) {
  const Folder folder;
  const std::string line = "{\"id\": [1, -2.5e3, true], \"text\": \"a\\n\\u00e9 \xC3\xA9\"}";
  for (size_t size = 1; size < line.size(); ++size)
    expect_contains(problem(folder.write("a.jsonl", line + "\n" + line.substr(0, size))), ":2: ");
  for (size_t offset = 0; offset < line.size(); ++offset) {
    for (int bit = 0; bit < 8; ++bit) {
      std::string damaged = line;
      damaged[offset] = static_cast<char>(damaged[offset] ^ (1 << bit));
      folder.write("a.jsonl", damaged);
      try {
        read(folder / "a.jsonl");
      } catch (const Error& error) {
        EXPECT_EQ(error.kind(), ErrorKind::kData);
      }
    }
  }
}

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

TEST(Readers, FilesThatCannotBeOpened) {
  const Folder folder;
  for (const char* name : {"a.txt", "a.jsonl", "a.txt.gz", "a.parquet", "a.arrow"}) {
    expect_contains(error_of(ErrorKind::kIo, [&] { read(folder / name); }), name);
  }
}

}  // namespace
}  // namespace lmtrain
