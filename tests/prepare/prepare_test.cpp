#include "prepare/prepare.h"

#include <gtest/gtest.h>

#include <csignal>
#include <map>

#include "base/file.h"
#include "base/limits.h"
#include "base/stop.h"
#include "prepare/prepare_fixture.h"
#include "text/arrow_files.h"

namespace lmtrain {
namespace {

namespace fs = std::filesystem;

TEST_F(Prepare, EveryDocumentIsOnOneSideInOrder) {
  const PreparedData data = prepare();
  const std::vector<std::string> train = train_texts(data);
  const std::vector<std::string> eval = eval_texts(data);
  ASSERT_EQ(train.size() + eval.size(), 60U);
  EXPECT_GE(eval.size(), 1U);
  EXPECT_LE(eval.size(), 20U);
  EXPECT_EQ(data.train_documents, static_cast<int64_t>(train.size()));
  EXPECT_EQ(data.eval_documents, static_cast<int64_t>(eval.size()));
  std::vector<std::string> expected;
  int64_t bytes = 0;
  for (int i = 0; i < 60; ++i) {
    bytes += static_cast<int64_t>(text(i).size());
    if (std::find(eval.begin(), eval.end(), text(i)) == eval.end()) expected.push_back(text(i));
  }
  EXPECT_EQ(train, expected) << "byte order of path";
  EXPECT_EQ(data.train_bytes + data.eval_bytes, bytes);
  EXPECT_EQ(data.train_tokens, TokenShard(data.train_shard, true).num_tokens());
  EXPECT_EQ(data.tokenizer_model, kTokenizerModel);
}

TEST_F(Prepare, TargetsOfBothSidesAreCountedAndFoundAgain) {
  for (const char* when : {"prepared", "found"}) {
    const PreparedData data = prepare();
    EXPECT_EQ(data.train_targets, data.train_tokens - data.train_documents) << when;
    EXPECT_EQ(data.eval_targets, data.eval_tokens - data.eval_documents) << when;
    EXPECT_GT(data.eval_targets, 0) << when;
  }
}

TEST_F(Prepare, ADocumentWithoutTokensHasNoTargets) {
  for (int i = 0; i < 3; ++i) folder_.write(str("corpus/empty/", i, ".txt"), "");
  config_.tokenizer.add_bos = config_.tokenizer.add_eos = false;
  config_.data.eval_fraction = 0;
  for (const char* when : {"prepared", "found"}) {
    const PreparedData data = prepare();
    EXPECT_EQ(data.train_documents, 63) << when;
    EXPECT_EQ(data.train_targets, data.train_tokens - 60) << when;
    EXPECT_EQ(data.eval_targets, 0) << when;
  }
}

TEST_F(Prepare, AddingDocumentsMovesNoOther) {
  const auto prepare_lines = [&](int num_documents) {
    std::string lines;
    for (int i = 0; i < num_documents; ++i) lines += str("one line number ", i, "\n");
    folder_.write("lines.txt", lines);
    config_.data.train = {{folder_.str("lines.txt"), 1.0}};
    config_.data.format = DataFormat::kLines;
    return eval_texts(prepare());
  };
  const std::vector<std::string> before = prepare_lines(400);
  const std::vector<std::string> after = prepare_lines(600);
  std::vector<std::string> kept;
  for (const std::string& text : after)
    if (std::stoi(text.substr(16)) < 400) kept.push_back(text);
  EXPECT_EQ(kept, before) << "same documents in the same (hash) order";
  EXPECT_GT(after.size(), before.size());
}

TEST_F(Prepare, EqualTextsGoToTheSameSide) {
  for (int i = 0; i < 60; ++i) folder_.write(str("corpus/copy/", i, ".txt"), text(i));
  const PreparedData data = prepare();
  std::map<std::string, int> counts;
  for (const std::string& text : train_texts(data)) ++counts[text];
  for (const std::string& text : eval_texts(data)) counts[text] += 101;
  for (const auto& [text, count] : counts) EXPECT_EQ(count % 100, 2) << text;
}

TEST_F(Prepare, AtLeastOneIsHeldOut) {
  config_.data.eval_fraction = 1e-12;
  const PreparedData data = prepare();
  EXPECT_GE(data.eval_documents, 1);
  EXPECT_EQ(data.train_documents + data.eval_documents, 60);
  EXPECT_LT(data.eval_bytes, (data.train_bytes + data.eval_bytes) / 5);
  config_.data.eval_fraction = 0;
  const PreparedData none = prepare();
  EXPECT_FALSE(none.eval_shard);
  EXPECT_EQ(none.train_documents, 60);
  EXPECT_NE(none.fingerprint, data.fingerprint);
}

TEST_F(Prepare, OneDocumentOrOneTextIsNotHeldOut) {
  config_.data.eval_fraction = 1e-12;
  config_.data.train = {{folder_.str(name(0)), 1.0}};
  EXPECT_FALSE(prepare().eval_shard);
  folder_.write("same/a.txt", "same");
  folder_.write("same/b.txt", "same");
  config_.data.train = {{folder_.str("same"), 1.0}};
  EXPECT_FALSE(prepare().eval_shard);
}

TEST_F(Prepare, GivenEvaluationTextMeansNoHoldOut) {
  folder_.write("eval/1.txt", "evaluate this");
  folder_.write("eval/2.txt", "and this");
  folder_.write("eval/3.txt", "");
  config_.data.eval = {{{folder_.str("eval"), 1.0}}};
  const PreparedData data = prepare();
  EXPECT_EQ(data.train_documents, 60);
  std::vector<std::string> eval = eval_texts(data);
  std::sort(eval.begin(), eval.end());
  EXPECT_EQ(eval, std::vector<std::string>({"", "and this", "evaluate this"}));
}

TEST_F(Prepare, NothingToTrainOnIsADataError) {
  folder_.write("blank.txt", "\n\n\n");
  config_.data.format = DataFormat::kLines;
  config_.data.train = {{folder_.str("blank.txt"), 1.0}};
  expect_contains(error_of(ErrorKind::kData, [&] { prepare(); }), "no document");
  config_.data.eval = config_.data.train;
  config_.data.train = {{folder_.str(name(1)), 1.0}};
  expect_contains(error_of(ErrorKind::kData, [&] { prepare(); }), "/data/eval");
}

TEST_F(Prepare, WeightsDoNotChangeTheShards) {
  const PreparedData before = prepare();
  config_.data.train[0].weight = 2.5;
  const PreparedData data = prepare();
  EXPECT_EQ(data.fingerprint, before.fingerprint);
  EXPECT_EQ(data.train_shard, before.train_shard);
  ASSERT_EQ(data.sources.size(), 1U);
}

TEST_F(Prepare, ChangedTextOrSettingsGiveAnotherFingerprint) {
  std::vector<std::string> fingerprints = {prepare().fingerprint};
  folder_.write(name(3), "changed");
  fingerprints.push_back(prepare().fingerprint);
  config_.tokenizer.add_eos = false;
  fingerprints.push_back(prepare().fingerprint);
  config_.data.eval_fraction = 0.2;
  fingerprints.push_back(prepare().fingerprint);
  fs::remove(folder_ / name(5));
  fingerprints.push_back(prepare().fingerprint);
  std::sort(fingerprints.begin(), fingerprints.end());
  EXPECT_EQ(std::unique(fingerprints.begin(), fingerprints.end()), fingerprints.end());
}

TEST_F(Prepare, TheFingerprintIsThatOfTheContentNotOfThePath) {
  const PreparedData first = prepare();
  fs::rename(folder_ / "corpus", folder_ / "moved");
  config_.data.train = {{folder_.str("moved/**/*.txt"), 1.0}};
  const PreparedData second = prepare();
  EXPECT_EQ(second.fingerprint, first.fingerprint);
  EXPECT_EQ(second.train_shard, first.train_shard) << "and nothing is written twice";
}

TEST_F(Prepare, ThreadCountsGiveTheSameShards) {
  std::string bytes;
  std::string eval_bytes;
  for (const int num_threads : {1, 2, 4}) {
    config_.data.cache_dir = folder_.str(str("cache", num_threads));
    const PreparedData data = prepare(num_threads);
    if (bytes.empty()) bytes = read_file(data.train_shard);
    if (eval_bytes.empty()) eval_bytes = read_file(*data.eval_shard);
    EXPECT_EQ(read_file(data.train_shard), bytes);
    EXPECT_EQ(read_file(*data.eval_shard), eval_bytes);
  }
}

TEST_F(Prepare, FormatsThatHoldTheSameDocumentsGiveTheSameShards) {
  std::string lines;
  std::string json;
  for (int i = 0; i < 40; ++i) {
    const std::string line = str("one line number ", i, " \t end");
    folder_.write(str("files/", i / 10, i % 10), line);
    lines += line + (i % 2 == 0 ? "\n" : "\r\n");
    json += str("{\"id\": ", i, ", \"body\": \"one line number ", i, " \\t end\"}\n");
  }
  folder_.write("lines.txt", lines);
  folder_.write("documents.jsonl", json);
  config_.data.text_field = "body";
  const auto fingerprint = [&](const char* path, DataFormat format) {
    config_.data.train = {{folder_.str(path), 1.0}};
    config_.data.format = format;
    const PreparedData data = prepare();
    EXPECT_EQ(data.train_documents + data.eval_documents, 40);
    return data.fingerprint;
  };
  const std::string files = fingerprint("files", DataFormat::kText);
  EXPECT_EQ(fingerprint("lines.txt", DataFormat::kLines), files);
  EXPECT_EQ(fingerprint("documents.jsonl", DataFormat::kAuto), files);
}

TEST_F(Prepare, TheTokenizerIsTrainedOnTheTrainingTextAlone) {
  config_.tokenizer.model.reset();
  config_.tokenizer.train.vocab_size = 300;
  for (const TokenizerType type : {TokenizerType::kBpe, TokenizerType::kByteBpe}) {
    config_.tokenizer.train.type = type;
    const PreparedData data = prepare();
    const Tokenizer tokenizer = Tokenizer::load(data.tokenizer_model);
    const std::vector<std::string> train = texts_of(data.train_shard, tokenizer);
    EXPECT_EQ(train_tokenizer(config_.tokenizer,
                              [&](const TextSink& add) {
                                for (const std::string& text : train) add(text);
                              }),
              tokenizer.files());
  }
}

// BOS before a text is a part of tokenizer.json, so that it is another one without.
TEST_F(Prepare, AByteBpeTokenizerIsCachedWithAllThatItDependsOn) {
  config_.tokenizer.model.reset();
  config_.tokenizer.train.vocab_size = 300;
  config_.tokenizer.train.type = TokenizerType::kByteBpe;
  const PreparedData data = prepare();
  EXPECT_EQ(data.tokenizer_model.filename(), "tokenizer.json");
  EXPECT_TRUE(Tokenizer::load(data.tokenizer_model).adds_bos());
  config_.tokenizer.add_bos = false;
  const PreparedData without = prepare_data(config_, 2);
  EXPECT_NE(without.tokenizer_model, data.tokenizer_model);
  EXPECT_NE(without.fingerprint, data.fingerprint);
  EXPECT_FALSE(Tokenizer::load(without.tokenizer_model).adds_bos());
  config_.tokenizer.add_bos = true;
  const std::string json = read_file(data.tokenizer_model);
  const fs::path specials = data.tokenizer_model.parent_path() / "special_tokens_map.json";
  for (const fs::path& damaged : {data.tokenizer_model, specials}) {
    const std::string bytes = read_file(damaged);
    testing::replace_file(damaged, bytes.substr(0, bytes.size() - 9));
    ::testing::internal::CaptureStderr();
    EXPECT_EQ(prepare().fingerprint, data.fingerprint);
    expect_contains(::testing::internal::GetCapturedStderr(), "is broken and made anew");
    EXPECT_EQ(read_file(damaged), bytes) << damaged;
  }
  fs::remove(specials);
  EXPECT_EQ(prepare().fingerprint, data.fingerprint);
  EXPECT_EQ(Tokenizer::load(data.tokenizer_model).eos_id(), 1);
  scramble_unnoticed();
  EXPECT_EQ(prepare().fingerprint, data.fingerprint) << "no text is read";
}

TEST_F(Prepare, TheTokenizerSampleIsBoundedAndDoesNotDependOnTheSeed) {
  config_.tokenizer.model.reset();
  config_.tokenizer.train.vocab_size = 290;
  config_.tokenizer.train.sample = 1000;
  const PreparedData first = prepare();
  config_.seed = 5;
  config_.data.seed = 6;
  config_.data.cache_dir = folder_.str("cache2");
  const PreparedData second = prepare();
  EXPECT_EQ(read_file(second.tokenizer_model), read_file(first.tokenizer_model));
  EXPECT_EQ(second.fingerprint, first.fingerprint);
  config_.tokenizer.train.sample = 2000;
  EXPECT_NE(read_file(prepare().tokenizer_model), read_file(first.tokenizer_model));
}

TEST_F(Prepare, WrongTokenizers) {
  config_.tokenizer.model = folder_.str("missing.model");
  expect_contains(error_of(ErrorKind::kUsage, [&] { prepare(); }), "/tokenizer/model");
  config_.tokenizer.model = folder_.write("bad.model", "bad").native();
  expect_contains(error_of(ErrorKind::kData, [&] { prepare(); }), "bad.model");
}

TEST_F(Prepare, ASignalStopsItAndTheNextStartSucceeds) {
  EXPECT_EQ(testing::exit_code_of([&] {
              install_signal_handlers();
              ::raise(SIGTERM);
              try {
                prepare();
              } catch (const StopRequested& stop) {
                return stop.signal == SIGTERM ? 0 : 1;
              }
              return 2;
            }),
            0);
  EXPECT_EQ(prepare().train_documents + prepare().eval_documents, 60);
}

TEST_F(Prepare, InvalidUtf8IsReadAsReplacementCharacters) {
  folder_.write(name(0), "bad \xFF byte");
  config_.data.eval_fraction = 0;
  const TokenShard shard(prepare().train_shard, true);
  EXPECT_EQ(shard.raw_bytes(0), 10U) << "bytes of the text as it is";
  std::vector<int32_t> ids(static_cast<size_t>(shard.document_size(0)));
  shard.read_tokens(0, ids);
  EXPECT_EQ(tokenizer_.decode({ids.begin() + 1, ids.end() - 1}), "bad \xEF\xBF\xBD byte");
}

// 64 KiB of gzip that become a document of 64 MiB, and one of an exact size in each format.
TEST_F(Prepare, ADocumentAboveTheLimitIsRefusedByName) {
  config_.data.max_document = 1 << 20;
  config_.data.eval_fraction = 0;
  const std::string bomb = testing::compressed(std::string(64 << 20, 'a'), Compression::kGzip);
  ASSERT_LT(bomb.size(), 128U << 10);
  const std::string fits(1 << 20, 'b');
  const auto as_json = [](const std::string& text) { return "{\"text\":\"" + text + "\"}\n"; };
  const auto as_table = [](const std::string& text) {
    return testing::parquet_bytes(*testing::table_of({"small", text}));
  };
  const std::vector<std::pair<std::string, std::string>> refused = {
      {"bomb.txt.gz", bomb},
      {"bomb.jsonl.gz", bomb},
      {"large.txt", fits + "b"},
      {"large.jsonl", as_json("small") + as_json(fits)},
      {"large.parquet", as_table(fits + "b")}};
  for (const auto& [name, bytes] : refused) {
    config_.data.train = {{folder_.write("files/" + name, bytes).native(), 1.0}};
    const std::string message = error_of(ErrorKind::kData, [&] { prepare(); });
    expect_contains(message, name);
    expect_contains(message, "more than 1.0 MiB (data.max_document)");
    const auto evaluate = [&] {
      tokenize_paths({folder_.str("files/" + name)}, config_.data, kTokenizerModel, true, true,
                     folder_ / "loose.bin");
    };
    expect_contains(error_of(ErrorKind::kData, evaluate), name);
  }
  const std::vector<std::pair<std::string, std::string>> taken = {
      {"exact.txt", fits},
      {"exact.jsonl", as_json(fits.substr(11))},
      {"exact.parquet", as_table(fits)}};
  for (const auto& [name, bytes] : taken) {
    config_.data.train = {{folder_.write("files/" + name, bytes).native(), 1.0}};
    EXPECT_GT(prepare().train_tokens, 0) << name;
  }
}

// The limit decides what is refused and nothing else.
TEST_F(Prepare, TheLimitOfADocumentIsNoPartOfTheFingerprint) {
  const PreparedData first = prepare();
  config_.data.max_document = 100'000;
  config_.data.cache_dir = folder_.str("cache2");
  EXPECT_EQ(prepare().fingerprint, first.fingerprint);
}

TEST_F(Prepare, MemoryThatRunsOutNamesTheFile) {
  const std::string text(80 << 20, 'a');
  testing::ParquetOptions as_one_page;
  as_one_page.dictionary = false;
  as_one_page.compression = arrow::Compression::ZSTD;
  const std::vector<std::pair<std::string, std::string>> bombs = {
      {"bomb.txt.gz", testing::compressed(text, Compression::kGzip)},
      {"bomb.parquet", testing::parquet_bytes(*testing::table_of({text}), as_one_page)}};
  for (const auto& [name, bytes] : bombs) {
    config_.data.train = {{folder_.write("files/" + name, bytes).native(), 1.0}};
    const auto prepare_in_little_memory = [&] {
      if (!testing::limit_addresses(uint64_t{64} << 20)) return 1;
      try {
        prepare(1);
      } catch (const Error& error) {
        const std::string message = error.what();
        const bool named = message.find(name) != std::string::npos &&
                           message.find("data.max_document") != std::string::npos;
        return error.kind() == ErrorKind::kMemory && named ? 0 : 2;
      }
      return 3;
    };
    EXPECT_EQ(testing::exit_code_of(prepare_in_little_memory), 0) << name;
  }
}

TEST_F(Prepare, TokenizePaths) {
  folder_.write("odd.jsonl", "{\"text\": \"from json\"}\n");
  const fs::path shard = folder_ / "loose.bin";
  tokenize_paths({folder_.str("odd.jsonl"), folder_.str("corpus/0")}, DataConfig(), kTokenizerModel,
                 true, true, shard);
  std::vector<std::string> expected;
  for (int i = 0; i < 10; ++i) expected.push_back(text(i));
  expected.emplace_back("from json");
  EXPECT_EQ(texts_of(shard, tokenizer_), expected);
  error_of(ErrorKind::kUsage, [&] {
    tokenize_paths({folder_.str("nothing")}, DataConfig(), kTokenizerModel, true, true, shard);
  });
}

}  // namespace
}  // namespace lmtrain
