// One set of documents in every format that can hold it gives the same shards, bit for bit.
#include <gtest/gtest.h>

#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "base/file.h"
#include "base/text.h"
#include "prepare/folder.h"
#include "prepare/prepare.h"
#include "text/arrow_files.h"

namespace lmtrain {
namespace {

using Texts = std::vector<std::string>;
namespace fs = std::filesystem;

struct Shards {
  std::string fingerprint;
  std::string train;
  std::string eval;
  bool operator==(const Shards&) const = default;
};

class Formats : public ::testing::Test {
 protected:
  // Writes the file and prepares it, with a cache of its own.
  void add(const std::string& name, const std::string& bytes,
           DataFormat format = DataFormat::kAuto) {
    folder_.write(name, bytes);
    prepare(name, name, format);
  }
  void prepare(const std::string& name, const std::string& pattern, DataFormat format) {
    Config config;
    config.data.train = {{folder_.str(pattern), 1.0}};
    config.data.format = format;
    config.data.cache_dir = folder_.str("cache/" + name);
    config.data.eval_fraction = 0.05;
    if (trained_) {
      config.tokenizer.train = *trained_;
    } else {
      config.tokenizer.model = kTokenizerModel;
    }
    const PreparedData data = prepare_data(config, 2);
    documents_.insert(data.train_documents + data.eval_documents);
    const Shards shards{data.fingerprint, read_file(data.train_shard), read_file(*data.eval_shard)};
    if (num_formats_++ == 0) first_ = shards;
    EXPECT_TRUE(shards == first_) << name;
  }

  // A file a document, named so that their order is that of the list.
  void add_folder(const Texts& texts) {
    for (size_t i = 0; i < texts.size(); ++i) {
      char name[32];
      std::snprintf(name, sizeof name, "files/%06zu.txt", i);
      folder_.write(name, texts[i]);
    }
    prepare("text", "files", DataFormat::kText);
  }
  void add_json(const Texts& texts) {
    std::string json;
    for (size_t i = 0; i < texts.size(); ++i) {
      const nlohmann::json line = {{"id", i}, {"text", texts[i]}, {"zz", {{"text", "no"}}}};
      json += line.dump(-1, ' ', i % 2 == 0) + (i % 3 == 0 ? "\r\n" : "\n");
    }
    add("a.jsonl", json);
    add("a.jsonl.gz", testing::compressed(json, Compression::kGzip));
    add("a.jsonl.zst", testing::compressed(json, Compression::kZstd));
    add("a.jsonl.bz2", testing::compressed(json, Compression::kBzip2));
    add("a.jsonl.xz", testing::compressed(json, Compression::kXz));
  }
  // In forms that hold any text too: an array, and tables as text.
  void add_rows(const Texts& texts) {
    nlohmann::json objects = nlohmann::json::array();
    std::string csv = "id,text\n";
    std::string tsv = "\xEF\xBB\xBFid\ttext\r\n";
    for (size_t i = 0; i < texts.size(); ++i) {
      objects.push_back({{"id", i}, {"text", texts[i]}, {"zz", {{"text", "no ]}"}}}});
      std::string quoted = texts[i];
      for (size_t at = 0; (at = quoted.find('"', at)) != std::string::npos; at += 2)
        quoted.insert(at, 1, '"');
      csv += str(i, ",\"", quoted, "\"\n");
      tsv += str(i, "\t\"", quoted, "\"\r\n");
    }
    add("objects.json", objects.dump(1));
    add("strings.json.gz",
        testing::compressed(nlohmann::json(texts).dump(-1, ' ', true), Compression::kGzip));
    add("a.csv", csv);
    add("a.tsv.zst", testing::compressed(tsv, Compression::kZstd));
  }
  void add_tables(const Texts& texts, const std::shared_ptr<arrow::DataType>& type) {
    const testing::Rows rows(texts.begin(), texts.end());
    const auto table = testing::table_of(rows, "text", type);
    testing::ParquetOptions options;
    options.rows_per_group = 777;
    options.page_bytes = 1 << 16;
    add("a.parquet", testing::parquet_bytes(*table, options));
    add("stream.arrow", testing::arrow_stream_bytes(*table, 1000));
    add("file.arrow", testing::arrow_file_bytes(*table, 1000));
    // As `datasets` keeps it: shards, taken in the order of their names.
    const int64_t half = table->num_rows() / 2;
    folder_.write("set/data-00000-of-00002.arrow",
                  testing::arrow_stream_bytes(*table->Slice(0, half), 1000));
    folder_.write("set/data-00001-of-00002.arrow",
                  testing::arrow_stream_bytes(*table->Slice(half), 1000));
    folder_.write("set/dataset_info.json", "{}");
    prepare("set", "set/data-*.arrow", DataFormat::kAuto);
  }

  Folder folder_;
  std::optional<TokenizerTrainConfig> trained_;  // none: the stored model
  std::set<int64_t> documents_;
  int num_formats_ = 0;
  Shards first_;
};

// A text whose kind depends on i; all different.
// One line: a long word, whose blocks are all the same, and numbers.
std::string long_text() {
  std::string text(100'000, 'x');
  for (int64_t i = 0; text.size() < 300'000; ++i) text += str(" ", i * i);
  return text;
}

std::string odd_text(int i) {
  const std::string name = str("document ", i);
  switch (i % 10) {
    case 0:
      return name + "\n\nwith lines\r\nof its own\n";
    case 1:
      return name + std::string(" \0 NUL", 6);
    case 2:
      return "\xEF\xBB\xBF " + name;
    case 3:
      return name + " \xF0\x9F\x98\x80 e\xCC\x81 \xE2\x80\xA8 \xC2\x85";
    case 4:
      return "\t " + name + " \\ \" \\u0041 / </s> \x01\x1F\x7F ";
    case 5:
      return i % 500 == 5 ? std::string() : "{\"text\": \"" + name + "\"}";
    case 6:
      return i == 6 ? long_text() : name + "\r";
    default:
      return str(name, ": def f(x):\n    return x * ", i * i, "\n");
  }
}

TEST_F(Formats, OddDocumentsInEveryFormatThatHoldsThem) {
  Texts texts;
  for (int i = 0; i < 5000; ++i) texts.push_back(odd_text(i));
  add_folder(texts);
  add_json(texts);
  add_rows(texts);
  add_tables(texts, arrow::utf8());
  EXPECT_EQ(num_formats_, 14);
  // Parts of the one long document are held out.
  EXPECT_EQ(documents_.size(), 1U);
  EXPECT_GT(*documents_.begin(), 5000);
}

TEST_F(Formats, LinesToo) {
  Texts texts;
  std::string lines;
  for (int i = 0; i < 1000; ++i) {
    texts.push_back(str("line ", i, " \t\xC3\xA9", std::string(i % 3 == 0 ? 1 : 0, '\0'), "."));
    lines += texts.back() + (i % 7 == 0 ? "\r\n" : "\n");
  }
  add("a.txt", lines, DataFormat::kLines);
  add("a.txt.gz", testing::compressed(lines, Compression::kGzip), DataFormat::kLines);
  add_folder(texts);
  add_json(texts);
  add_tables(texts, arrow::large_utf8());
  EXPECT_EQ(documents_, std::set<int64_t>({1000}));
}

// The fingerprint has the tokenizer's bytes in it.
TEST_F(Formats, TokenizersTrainedOnASample) {
  Texts texts;
  int64_t bytes = 0;
  for (int i = 0; i < 1500; ++i) {
    texts.push_back(odd_text(i % 10 == 6 ? 7 : i));
    bytes += static_cast<int64_t>(texts.back().size());
  }
  for (const TokenizerType type :
       {TokenizerType::kBpe, TokenizerType::kUnigram, TokenizerType::kByteBpe}) {
    trained_.emplace().type = type;
    trained_->vocab_size = 320;
    trained_->sample = bytes / 3;
    num_formats_ = 0;
    add_json(texts);
    add_tables(texts, arrow::utf8());
    EXPECT_EQ(num_formats_, 9);
  }
  EXPECT_EQ(documents_, std::set<int64_t>({1500}));
}

TEST_F(Formats, InvalidUtf8WhereTheFormatHoldsIt) {
  Texts texts;
  std::string lines;
  for (int i = 0; i < 200; ++i) {
    texts.push_back(str("bytes \xFF\xC3", i, "\xED\xA0\x80"));
    lines += texts.back() + "\n";
  }
  add_folder(texts);
  add("a.txt", lines, DataFormat::kLines);
  add_tables(texts, arrow::binary());
  EXPECT_EQ(documents_, std::set<int64_t>({200}));
}

TEST_F(Formats, AnotherDocumentGivesOtherShards) {
  add("a.txt", "one\ntwo\nthree\nfour\n", DataFormat::kLines);
  folder_.write("b.txt", "one\ntwo\nthree\nfive\n");
  Config config;
  config.data.train = {{folder_.str("b.txt"), 1.0}};
  config.data.format = DataFormat::kLines;
  config.data.cache_dir = folder_.str("cache/b");
  config.data.eval_fraction = 0.05;
  config.tokenizer.model = kTokenizerModel;
  const PreparedData data = prepare_data(config, 2);
  EXPECT_NE(data.fingerprint, first_.fingerprint);
  EXPECT_NE(read_file(data.train_shard) + read_file(*data.eval_shard), first_.train + first_.eval);
}

}  // namespace
}  // namespace lmtrain
