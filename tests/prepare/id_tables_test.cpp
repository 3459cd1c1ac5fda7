// Documents that are token ids already, in tables and shards: tests/reference/tables has them as
// other libraries write them.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>

#include "base/file.h"
#include "base/text.h"
#include "formats/token_bytes.h"
#include "formats/token_shard.h"
#include "prepare/folder.h"
#include "prepare/prepare.h"
#include "text/arrow_files.h"

namespace lmtrain {
namespace {

namespace fs = std::filesystem;
using Ids = std::vector<int32_t>;
using testing::put;

const fs::path kTables = fs::path(LMTRAIN_SOURCE_DIR) / "tests/reference/tables";

std::vector<Ids> documents_of(const fs::path& path) {
  const TokenShard shard(path, true);
  std::vector<Ids> documents;
  for (int64_t i = 0; i < shard.num_documents(); ++i) {
    documents.emplace_back(static_cast<size_t>(shard.document_size(i)));
    shard.read_tokens(shard.document_begin(i), documents.back());
  }
  return documents;
}

std::string unpacked(const fs::path& path) {
  const std::unique_ptr<ByteStream> stream = open_bytes(path);
  std::string bytes;
  std::string part(1 << 16, '\0');
  for (size_t got = 1; got > 0; bytes.append(part, 0, got))
    got = stream->read(part.data(), part.size());
  return bytes;
}

class IdTables : public ::testing::Test {
 protected:
  IdTables() {
    config_.data.cache_dir = folder_.str("cache");
    config_.data.eval_fraction = 0;
    config_.tokenizer.model = kTokenizerModel;
    golden_ =
        nlohmann::json::parse(read_file(kTables / "documents.json"))["ids"].get<std::vector<Ids>>();
  }
  PreparedData prepare(const fs::path& path, DataFormat format = DataFormat::kAuto) {
    config_.data.train = {{path.native(), 1.0}};
    config_.data.format = format;
    return prepare_data(config_, 1);
  }
  std::string problem(const fs::path& path, DataFormat format = DataFormat::kAuto,
                      ErrorKind kind = ErrorKind::kData) {
    return error_of(kind, [&] { prepare(path, format); });
  }
  // A Parquet file of these rows; text_field says which column they are.
  fs::path parquet(const std::string& name, const std::shared_ptr<arrow::Table>& table) const {
    return folder_.write(name, testing::parquet_bytes(*table));
  }

  Folder folder_;
  Config config_;
  std::vector<Ids> golden_;
};

// --- tables made here ----------------------------------------------------------------------------

using Lists = std::vector<std::optional<std::vector<std::optional<int64_t>>>>;

std::shared_ptr<arrow::Array> lists(const Lists& rows) {
  auto values = std::make_shared<arrow::Int64Builder>();
  arrow::ListBuilder builder(arrow::default_memory_pool(), values);
  for (const auto& row : rows) {
    EXPECT_TRUE((row ? builder.Append() : builder.AppendNull()).ok());
    if (!row) continue;
    for (const auto& value : *row)
      EXPECT_TRUE((value ? values->Append(*value) : values->AppendNull()).ok());
  }
  return *builder.Finish();
}

std::shared_ptr<arrow::Table> table(const std::vector<std::pair<std::string, Lists>>& columns) {
  arrow::FieldVector fields;
  std::vector<std::shared_ptr<arrow::Array>> arrays;
  for (const auto& [name, rows] : columns) {
    arrays.push_back(lists(rows));
    fields.push_back(arrow::field(name, arrays.back()->type()));
  }
  return arrow::Table::Make(arrow::schema(fields), arrays);
}

TEST_F(IdTables, EveryContainerGivesTheSameDocuments) {
  std::set<std::string> fingerprints;
  size_t num_containers = 0;
  for (const auto& entry : fs::directory_iterator(kTables / "ids")) {
    for (const DataFormat format : {DataFormat::kAuto, DataFormat::kTokens}) {
      const PreparedData data = prepare(entry.path(), format);
      EXPECT_EQ(documents_of(data.train_shard), golden_) << entry.path();
      EXPECT_EQ(data.train_documents, std::ssize(golden_)) << entry.path();
      fingerprints.insert(data.fingerprint);
    }
    ++num_containers;
  }
  EXPECT_EQ(num_containers, 20U);
  EXPECT_EQ(fingerprints.size(), 1U);
  // As token files that are trained on in place.
  std::string bytes;
  std::vector<int32_t> lengths;
  std::vector<int64_t> documents = {0};
  for (const Ids& ids : golden_) {
    bytes += testing::ids_as<uint16_t>(ids);
    lengths.push_back(static_cast<int32_t>(ids.size()));
    documents.push_back(std::ssize(lengths));
  }
  folder_.write("m/a.bin", bytes);
  folder_.write("m/a.idx", testing::megatron_index(8, 2, lengths, documents));
  EXPECT_EQ(prepare(folder_ / "m", DataFormat::kTokens).fingerprint, *fingerprints.begin());
}

TEST_F(IdTables, ASecondStartFindsThem) {
  const PreparedData first = prepare(kTables / "ids/saved");
  const auto written = fs::last_write_time(first.train_shard);
  const PreparedData again = prepare(kTables / "ids/saved");
  EXPECT_EQ(again.fingerprint, first.fingerprint);
  EXPECT_EQ(fs::last_write_time(again.train_shard), written);
  EXPECT_EQ(again.train_text, first.train_text);
  // The copy of the ids is gone.
  for (const auto& entry : fs::recursive_directory_iterator(folder_ / "cache"))
    EXPECT_EQ(entry.path().native().find(".ids"), std::string::npos) << entry.path();
}

TEST_F(IdTables, PaddingIsNotTrainedOn) {
  for (const auto& entry : fs::directory_iterator(kTables / "padded")) {
    const PreparedData data = prepare(entry.path());
    EXPECT_EQ(documents_of(data.train_shard), golden_) << entry.path();
    EXPECT_GT(data.train_text.skipped.padding, 0) << entry.path();
  }
}

TEST_F(IdTables, WhatIsLeftOutIsSaid) {
  ::testing::internal::CaptureStderr();
  prepare(kTables / "padded/a.parquet");
  std::string log = ::testing::internal::GetCapturedStderr();
  expect_contains(log, "positions of padding left out (attention_mask 0, labels -100)");
  expect_contains(log, "ignored: \"labels\", \"token_type_ids\"");
  ::testing::internal::CaptureStderr();
  prepare(kTables / "padded/a.parquet");
  log = ::testing::internal::GetCapturedStderr();
  expect_contains(log, "positions of padding left out");
}

TEST_F(IdTables, HeldOutByDocuments) {
  config_.data.eval_fraction = 0.5;
  const PreparedData parquet = prepare(kTables / "ids/int32.parquet");
  const PreparedData mds = prepare(kTables / "ids/mds_zstd");
  ASSERT_TRUE(parquet.eval_shard);
  EXPECT_EQ(documents_of(*parquet.eval_shard), documents_of(*mds.eval_shard));
  EXPECT_EQ(parquet.train_tokens + parquet.eval_tokens, mds.train_tokens + mds.eval_tokens);
  config_.data.eval = {{{(kTables / "ids/stream.arrow").native(), 1.0}}};
  const PreparedData given = prepare(kTables / "ids/litdata_int32");
  EXPECT_EQ(given.eval_documents, std::ssize(golden_));
  EXPECT_EQ(given.eval_in_train.documents, std::ssize(golden_));
}

// The type of an MDS column of bytes is in no file.
TEST_F(IdTables, BytesOfMdsAreInt64UnlessSaid) {
  config_.data.token_dtype = TokenDtype::kUint16;
  const std::vector<Ids> documents = documents_of(prepare(kTables / "ids/mds_bytes").train_shard);
  EXPECT_EQ(documents.front().size(), 4 * golden_.front().size());
}

TEST_F(IdTables, RowsWithAFixedShape) {
  std::vector<Ids> blocks = golden_;
  std::erase_if(blocks, [](const Ids& ids) { return ids.size() != 8; });
  ASSERT_FALSE(blocks.empty());
  EXPECT_EQ(documents_of(prepare(kTables / "blocks").train_shard), blocks);
}

TEST_F(IdTables, NullsAndEmptyRowsAreCounted) {
  const auto rows = table({{"input_ids", {{{5, 6}}, std::nullopt, {{}}, {{7}}, std::nullopt}}});
  folder_.write("a.parquet", testing::parquet_bytes(*rows));
  folder_.write("b.arrow", testing::arrow_stream_bytes(*rows, 2));
  for (const char* name : {"a.parquet", "b.arrow"}) {
    const PreparedData data = prepare(folder_ / name);
    EXPECT_EQ(documents_of(data.train_shard), std::vector<Ids>({{5, 6}, {7}})) << name;
    EXPECT_EQ(data.train_text.skipped.nulls, 2) << name;
    EXPECT_EQ(data.train_text.skipped.empty_rows, 1) << name;
  }
}

TEST_F(IdTables, IdsThatAreNoneAreNamed) {
  const auto expect = [&](const Lists& rows, std::string_view what) {
    const auto bad = table({{"input_ids", rows}});
    folder_.write("a.parquet", testing::parquet_bytes(*bad));
    folder_.write("a.arrow", testing::arrow_stream_bytes(*bad));
    for (const char* name : {"a.parquet", "a.arrow"}) {
      const std::string message = problem(folder_ / name);
      expect_contains(message, folder_.str(name));
      expect_contains(message, what);
    }
  };
  expect({{{5}}, {{5, 384}}}, "row 1, position 1: the id 384 is outside the vocabulary");
  expect({{{5, 6, -1}}}, "row 0, position 2: the id -1 is no id");
  expect({{{5}}, {{5, 6, std::nullopt}}}, "row 1: position 2 of \"input_ids\" is null");
  folder_.write("a.parquet", testing::parquet_bytes(*table({{"input_ids", {std::nullopt, {{}}}}})));
  expect_contains(problem(folder_ / "a.parquet"),
                  "hold no document, 1 nulls skipped, 1 rows without ids skipped");
}

TEST_F(IdTables, MasksAndLabelsThatLeaveAHoleAreRefused) {
  const auto expect = [&](const std::string& column, const Lists& values, std::string_view what) {
    folder_.write("a.parquet", testing::parquet_bytes(
                                   *table({{"input_ids", {{{5, 6, 7, 8}}}}, {column, values}})));
    expect_contains(problem(folder_ / "a.parquet"), what);
  };
  expect("attention_mask", {{{1, 0, 1, 1}}}, "row 0: attention_mask is 0 at position 1");
  expect("attention_mask", {{{1, 1, 1}}}, "row 0: attention_mask has 3 values");
  expect("attention_mask", {std::nullopt}, "row 0: attention_mask is null");
  expect("labels", {{{-100, -100, 7, 8}}}, "row 0: labels is -100 at position 1");
  expect("labels", {{{5, -100, 7, -100}}}, "take the column labels out");
  // The first label is the target of nothing.
  folder_.write("a.parquet", testing::parquet_bytes(
                                 *table({{"input_ids", {{{5, 6, 7, 8}}, {{9, 9}}}},
                                         {"labels", {{{-100, 6, 7, -100}}, {{-100, -100}}}}})));
  const PreparedData data = prepare(folder_ / "a.parquet");
  EXPECT_EQ(documents_of(data.train_shard), std::vector<Ids>({{5, 6, 7}}));
  EXPECT_EQ(data.train_text.skipped.padding, 3);
  EXPECT_EQ(data.train_text.skipped.empty_rows, 1);
}

TEST_F(IdTables, TextWinsUnlessTheConfigSaysTokens) {
  arrow::StringBuilder builder;
  ASSERT_TRUE(builder.Append("some text").ok());
  const std::shared_ptr<arrow::Array> text = *builder.Finish();
  const std::shared_ptr<arrow::Array> ids = lists({{{5, 6, 7}}});
  const auto both = arrow::Table::Make(
      arrow::schema({arrow::field("text", text->type()), arrow::field("input_ids", ids->type())}),
      {text, ids});
  folder_.write("a.parquet", testing::parquet_bytes(*both));
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(prepare(folder_ / "a.parquet").train_text.bytes, 9);
  expect_contains(::testing::internal::GetCapturedStderr(), "the text is taken");
  EXPECT_EQ(documents_of(prepare(folder_ / "a.parquet", DataFormat::kTokens).train_shard),
            std::vector<Ids>({{5, 6, 7}}));
}

TEST_F(IdTables, AnotherColumnByTheNameOfTheField) {
  folder_.write("a.parquet", testing::parquet_bytes(*table({{"my_ids", {{{5, 6}}}}})));
  expect_contains(problem(folder_ / "a.parquet", DataFormat::kTokens), "the file has: \"my_ids\"");
  config_.data.text_field = "my_ids";
  for (const DataFormat format : {DataFormat::kAuto, DataFormat::kParquet, DataFormat::kTokens})
    EXPECT_EQ(documents_of(prepare(folder_ / "a.parquet", format).train_shard),
              std::vector<Ids>({{5, 6}}));
}

TEST_F(IdTables, TheTokenizerMustBeGiven) {
  config_.tokenizer.model.reset();
  expect_contains(problem(kTables / "ids/int32.parquet", DataFormat::kAuto, ErrorKind::kConfig),
                  "/tokenizer/model: data.train holds token ids");
}

TEST_F(IdTables, TextBesideTablesOfIdsIsRefused) {
  fs::copy(kTables / "ids/int32.parquet", folder_ / "f.parquet");
  folder_.write("d/a.txt", "some text\n");
  fs::rename(folder_ / "f.parquet", folder_ / "d/f.parquet");
  expect_contains(problem(folder_ / "d"), folder_.str("d/a.txt"));
}

// Every byte that is cut off is noticed, and no flipped one crashes.
TEST_F(IdTables, DamageIsNamed) {
  for (const std::string name :
       {"ids/int32.parquet", "ids/stream.arrow", "ids/file.feather",
        "ids/mds_int32/shard.00000.mds", "ids/mds_zstd/shard.00000.mds.zstd"}) {
    const std::string bytes = read_file(kTables / name);
    const std::string copy = fs::path(name).filename().native();
    for (size_t size = 1; size < bytes.size(); size += bytes.size() / 11 + 1) {
      folder_.write(copy, bytes.substr(0, size));
      expect_contains(problem(folder_ / copy, DataFormat::kTokens), folder_.str(copy));
    }
    for (size_t i = 0; i < bytes.size(); i += bytes.size() / 29 + 1) {
      std::string flipped = bytes;
      flipped[i] = static_cast<char>(flipped[i] ^ 0x40);
      folder_.write(copy, flipped);
      try {
        prepare(folder_ / copy, DataFormat::kTokens);
      } catch (const Error& error) {
        EXPECT_EQ(error.kind(), ErrorKind::kData) << error.what();
      }
    }
  }
}

// --- MDS and litdata
// -------------------------------------------------------------------------------

TEST_F(IdTables, ShardsThatTheIndexListsMustBeThere) {
  for (const char* name : {"mds_int32", "litdata_int32"}) {
    fs::copy(kTables / "ids" / name, folder_ / name);
    const bool is_mds = name == std::string_view("mds_int32");
    const std::string shard = is_mds ? "shard.00001.mds" : "chunk-0-1.bin";
    fs::rename(folder_ / name / shard, folder_ / "elsewhere");
    const std::string message = problem(folder_ / name);
    expect_contains(message, shard);
    expect_contains(message, "missing, and index.json lists it");
    folder_.write(std::string(name) + "/" + shard, read_file(folder_ / "elsewhere").substr(0, 400));
    expect_contains(problem(folder_ / name), "ends at byte 400");
    folder_.write(std::string(name) + "/" + shard, read_file(folder_ / "elsewhere") + "more");
    expect_contains(problem(folder_ / name), "goes on behind the last");
  }
}

TEST_F(IdTables, ShardsInBothFormsAndOfFoldersBelow) {
  // As StreamingDataset leaves a folder: decompressed beside compressed.
  fs::copy(kTables / "ids/mds_zstd", folder_ / "both");
  for (const auto& entry : fs::directory_iterator(kTables / "ids/mds_zstd")) {
    if (entry.path().extension() != ".zstd") continue;
    folder_.write("both/" + entry.path().filename().stem().native(), unpacked(entry.path()));
  }
  EXPECT_EQ(documents_of(prepare(folder_ / "both").train_shard), golden_);
  // A shard of an earlier writing, which the index does not list.
  fs::copy(kTables / "ids/mds_int32", folder_ / "rewritten");
  fs::copy(kTables / "ids/mds_int32/shard.00000.mds", folder_ / "rewritten/shard.00009.mds");
  EXPECT_EQ(documents_of(prepare(folder_ / "rewritten").train_shard), golden_);
  // One index for the folders below, which have their own.
  fs::create_directories(folder_ / "merged");
  fs::copy(kTables / "ids/mds_int32", folder_ / "merged/part");
  std::string index = read_file(kTables / "ids/mds_int32/index.json");
  for (size_t at = 0; (at = index.find("\"shard.", at)) != std::string::npos; at += 8)
    index.replace(at, 1, "\"part/");
  folder_.write("merged/index.json", index);
  EXPECT_EQ(documents_of(prepare(folder_ / "merged").train_shard), golden_);
}

TEST_F(IdTables, IndicesThatCannotBeRead) {
  const auto message = [&](const std::string& index, ErrorKind kind) {
    folder_.write("d/index.json", index);
    folder_.write("d/shard.00000.mds", read_file(kTables / "ids/mds_int32/shard.00000.mds"));
    return problem(folder_ / "d", DataFormat::kAuto, kind);
  };
  const std::string good = read_file(kTables / "ids/mds_int32/index.json");
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string changed = good;
    changed.replace(changed.find(from), from.size(), to);
    return changed;
  };
  expect_contains(message(good.substr(0, 400), ErrorKind::kData), "index.json");
  expect_contains(message(with("\"shard.00000.mds\"", "\"../a.mds\""), ErrorKind::kData),
                  "leads elsewhere");
  expect_contains(message(with("\"format\": \"mds\"", "\"format\": \"csv\""), ErrorKind::kConfig),
                  "of the format \"csv\"");
  expect_contains(
      message(with("\"compression\": null", "\"compression\": \"br:3\""), ErrorKind::kConfig),
      "compressed by br,");
  expect_contains(message(with("], \"version\": 2", "], \"version\": 3"), ErrorKind::kConfig),
                  "version 3");
}

TEST_F(IdTables, LitdataThatIsNoIds) {
  const auto message = [&](const std::string& from, const std::string& to, ErrorKind kind) {
    fs::remove_all(folder_ / "l");
    fs::copy(kTables / "ids/litdata_int32", folder_ / "l");
    std::string index = read_file(folder_ / "l/index.json");
    const size_t at = index.find(from);
    EXPECT_NE(at, std::string::npos);
    index.replace(at, from.size(), to);
    folder_.write("l/index.json", index);
    return problem(folder_ / "l", DataFormat::kAuto, kind);
  };
  expect_contains(message("no_header_tensor:16", "no_header_tensor:0", ErrorKind::kData),
                  "bare ids of integers are read");
  expect_contains(message("no_header_tensor:16", "str", ErrorKind::kData), "TokensLoader");
  expect_contains(
      message("\"encryption\": null", "\"encryption\": {\"level\": \"chunk\"}", ErrorKind::kConfig),
      "encrypted");
  expect_contains(message("no_header_tensor:16", "no_header_tensor:18", ErrorKind::kData), "row ");
}

// The table of offsets claims more than there is.
TEST_F(IdTables, OffsetsThatContradictThemselves) {
  const auto message = [&](const std::vector<uint32_t>& numbers, const std::string& rest) {
    std::string bytes;
    for (const uint32_t number : numbers) put(bytes, number);
    folder_.write("a.mds", bytes + rest);
    return problem(folder_ / "a.mds", DataFormat::kTokens);
  };
  expect_contains(message({1}, ""), "ends at byte 4");
  expect_contains(message({0xFFFFFFFF, 12, 12}, ""), "its table of offsets says");
  expect_contains(message({1, 4, 12}, ""), "its table of offsets says");
  expect_contains(message({2, 16, 12, 12}, ""), "ends at byte 12, before it begins");
  expect_contains(message({1, 14, 14}, "{}"), "no list \"column_names\"");
}

TEST_F(IdTables, TextOfMds) {
  const auto texts = nlohmann::json::parse(read_file(kTables / "documents.json"))["texts"]
                         .get<std::vector<std::string>>();
  int64_t bytes = 0;
  for (const std::string& text : texts) bytes += static_cast<int64_t>(text.size());
  std::set<std::string> fingerprints;
  for (const auto& entry : fs::directory_iterator(kTables / "text")) {
    const PreparedData data = prepare(entry.path());
    EXPECT_EQ(data.train_text.bytes, bytes) << entry.path();
    EXPECT_EQ(data.train_documents, std::ssize(texts)) << entry.path();
    fingerprints.insert(data.fingerprint);
  }
  EXPECT_EQ(fingerprints.size(), 1U);
  config_.data.text_field = "texts";
  expect_contains(problem(kTables / "text/mds", DataFormat::kMds), "did you mean \"text\"?");
}

}  // namespace
}  // namespace lmtrain
