#include "corpus/prepare.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <csignal>
#include <map>

#include "base/files/file.h"
#include "base/signal.h"
#include "base/stop.h"
#include "base/text.h"
#include "corpus/folder.h"
#include "corpus/tokenizer/tokenizer.h"
#include "formats/token_shard.h"

namespace lmtrain {
namespace {

namespace fs = std::filesystem;

// The documents of a shard as text.
std::vector<std::string> texts_of(const fs::path& path, const Tokenizer& tokenizer) {
  const TokenShard shard(path, true);
  std::vector<std::string> texts;
  for (int64_t i = 0; i < shard.num_documents(); ++i) {
    std::vector<int32_t> ids(static_cast<size_t>(shard.document_size(i)));
    shard.read_tokens(shard.document_begin(i), ids);
    EXPECT_EQ(ids.front(), tokenizer.bos_id());
    EXPECT_EQ(ids.back(), tokenizer.eos_id());
    texts.push_back(tokenizer.decode({ids.begin() + 1, ids.end() - 1}));
    EXPECT_EQ(shard.raw_bytes(i), texts.back().size());
  }
  return texts;
}

class Prepare : public ::testing::Test {
 protected:
  Prepare() {
    for (int i = 0; i < 60; ++i) write_document(i);
    config_.data.train = {{folder_.str("corpus"), 1.0}};
    config_.data.cache_dir = folder_.str("cache");
    config_.data.eval_fraction = 0.1;
    config_.tokenizer.model = kTokenizerModel;
  }

  static std::string text(int i) {
    std::string document = str("document number ", i, "\n");
    for (int line = 0; line < i % 7; ++line) document += str("    line ", line * i, " of it\n");
    return document;
  }
  static std::string name(int i) { return str("corpus/", i / 10, "/", i % 10, ".txt"); }
  void write_document(int i) { folder_.write(name(i), text(i)); }

  PreparedData prepare(int num_threads = 2) const { return prepare_data(config_, num_threads); }
  std::vector<std::string> train_texts(const PreparedData& data) const {
    return texts_of(data.train_shard, tokenizer_);
  }
  std::vector<std::string> eval_texts(const PreparedData& data) const {
    return data.eval_shard ? texts_of(*data.eval_shard, tokenizer_) : std::vector<std::string>();
  }

  // Makes the text of every file something else without changing size or time: only a program that
  // reads would notice.
  void scramble_unnoticed() const {
    for (const auto& entry : fs::recursive_directory_iterator(folder_ / "corpus")) {
      if (!entry.is_regular_file()) continue;
      struct stat before {};
      ASSERT_EQ(::stat(entry.path().c_str(), &before), 0);
      const int fd = ::open(entry.path().c_str(), O_WRONLY);
      ASSERT_EQ(::pwrite(fd, "#", 1, 0), 1);
      const timespec times[] = {before.st_atim, before.st_mtim};
      ASSERT_EQ(::futimens(fd, times), 0);
      ::close(fd);
    }
  }

  Folder folder_;
  Config config_;
  Tokenizer tokenizer_ = Tokenizer::load(kTokenizerModel);
};

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

TEST_F(Prepare, ASecondStartReadsNoText) {
  const PreparedData first = prepare();
  const auto written = fs::last_write_time(first.train_shard);
  scramble_unnoticed();
  const PreparedData second = prepare();
  EXPECT_EQ(second.fingerprint, first.fingerprint);
  EXPECT_EQ(second.train_tokens, first.train_tokens);
  EXPECT_EQ(second.train_bytes, first.train_bytes);
  EXPECT_EQ(second.eval_documents, first.eval_documents);
  EXPECT_EQ(second.eval_bytes, first.eval_bytes);
  EXPECT_EQ(fs::last_write_time(second.train_shard), written);
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

TEST_F(Prepare, BrokenCacheEntriesAreMadeAnew) {
  config_.tokenizer.model.reset();
  config_.tokenizer.train.vocab_size = 300;
  const PreparedData first = prepare();
  const std::string train = read_file(first.train_shard);
  const std::string eval = read_file(*first.eval_shard);
  const std::string model = read_file(first.tokenizer_model);
  const auto check = [&](const fs::path& broken) {
    const PreparedData again = prepare();
    EXPECT_EQ(again.fingerprint, first.fingerprint) << broken;
    EXPECT_EQ(read_file(again.train_shard), train) << broken;
    EXPECT_EQ(read_file(*again.eval_shard), eval) << broken;
    EXPECT_EQ(read_file(again.tokenizer_model), model) << broken;
  };
  std::vector<fs::path> files;
  for (const auto& entry : fs::recursive_directory_iterator(folder_ / "cache")) {
    if (entry.is_regular_file() && entry.path().parent_path().filename() != "locks")
      files.push_back(entry.path());
  }
  EXPECT_EQ(files.size(), 7U);
  for (const fs::path& file : files) {
    const std::string bytes = read_file(file);
    fs::remove(file);
    check(file);
    write_file_atomic(file, bytes.substr(0, bytes.size() / 2));
    check(file);
    write_file_atomic(file, "");
    check(file);
    write_file_atomic(file, "{}");
    check(file);
    write_file_atomic(file, std::string(bytes.size(), 'x'));
    check(file);
    std::string flipped = bytes;
    flipped[bytes.size() / 2] ^= 1;
    write_file_atomic(file, flipped);
    check(file);
  }
  fs::remove_all(folder_ / "cache/shards");
  check("shards");
  fs::remove_all(folder_ / "cache/tokenizers");
  check("tokenizers");
}

// A sample of all bits; what is read must never be trusted.
TEST_F(Prepare, AFlippedBitInTheCacheChangesNothing) {
  config_.data.train = {{folder_.str("corpus/[0-2]/*"), 1.0}, {folder_.str("corpus/[3-5]/*"), 1.0}};
  const PreparedData first = prepare();
  ASSERT_EQ(first.sources.size(), 2U);
  std::vector<fs::path> files;
  for (const auto& entry : fs::recursive_directory_iterator(folder_ / "cache"))
    if (entry.path().extension() == ".json") files.push_back(entry.path());
  ASSERT_EQ(files.size(), 2U);
  for (const fs::path& file : files) {
    const std::string bytes = read_file(file);
    for (size_t bit = 3; bit < 8 * bytes.size(); bit += 41) {
      std::string damaged = bytes;
      damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << (bit % 8)));
      testing::replace_file(file, damaged);
      ::testing::internal::CaptureStderr();
      const PreparedData again = prepare();
      const std::string said = ::testing::internal::GetCapturedStderr();
      expect_contains(said, "is broken and made anew");
      expect_contains(said, file.native());
      ASSERT_EQ(again.fingerprint, first.fingerprint) << file << " bit " << bit;
      ASSERT_EQ(again.train_documents, first.train_documents) << file << " bit " << bit;
      ASSERT_EQ(again.train_tokens, first.train_tokens) << file << " bit " << bit;
      ASSERT_EQ(again.train_bytes, first.train_bytes) << file << " bit " << bit;
      ASSERT_EQ(again.eval_documents, first.eval_documents) << file << " bit " << bit;
      ASSERT_EQ(again.eval_bytes, first.eval_bytes) << file << " bit " << bit;
      ASSERT_EQ(again.sources.size(), 2U) << file << " bit " << bit;
      for (size_t i = 0; i < 2; ++i) {
        ASSERT_EQ(again.sources[i].first_document, first.sources[i].first_document);
        ASSERT_EQ(again.sources[i].source, first.sources[i].source);
      }
      EXPECT_EQ(read_file(file), bytes) << "made anew";
    }
  }
}

TEST_F(Prepare, TwoProcessesAtOnceMakeOneGoodCache) {
  config_.tokenizer.model.reset();
  config_.tokenizer.train.vocab_size = 300;
  for (int i = 60; i < 400; ++i) write_document(i);
  std::vector<pid_t> children;
  for (int i = 0; i < 3; ++i) {
    const pid_t child = ::fork();
    if (child == 0) {
      int code = 1;
      try {
        const PreparedData data = prepare_data(config_, 2);
        code = TokenShard(data.train_shard, true).num_documents() == data.train_documents ? 0 : 2;
      } catch (...) {  // the code says it
      }
      ::_exit(code);
    }
    children.push_back(child);
  }
  for (const pid_t child : children) {
    int status = -1;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  }
  scramble_unnoticed();
  EXPECT_EQ(prepare().train_documents, TokenShard(prepare().train_shard, true).num_documents());
  int shards = 0;
  for (const auto& entry : fs::directory_iterator(folder_ / "cache/shards"))
    shards += entry.is_directory() ? 1 : 0;
  EXPECT_EQ(shards, 1);
}

TEST_F(Prepare, TheTokenizerIsTrainedOnTheTrainingTextAlone) {
  config_.tokenizer.model.reset();
  config_.tokenizer.train.vocab_size = 300;
  const PreparedData data = prepare();
  const std::string model = read_file(data.tokenizer_model);
  const Tokenizer tokenizer(model, "trained");
  std::vector<std::string> train = texts_of(data.train_shard, tokenizer);
  EXPECT_EQ(train_tokenizer(config_.tokenizer.train,
                            [&](const TextSink& add) {
                              for (const std::string& text : train) add(text);
                            }),
            model);
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

TEST_F(Prepare, TokenizePaths) {
  folder_.write("odd.jsonl", "{\"text\": \"from json\"}\n");
  const fs::path shard = folder_ / "loose.bin";
  tokenize_paths({folder_.str("odd.jsonl"), folder_.str("corpus/0")}, DataFormat::kAuto, "text",
                 kTokenizerModel, true, true, shard);
  std::vector<std::string> expected;
  for (int i = 0; i < 10; ++i) expected.push_back(text(i));
  expected.emplace_back("from json");
  EXPECT_EQ(texts_of(shard, tokenizer_), expected);
  error_of(ErrorKind::kUsage, [&] {
    tokenize_paths({folder_.str("nothing")}, DataFormat::kAuto, "text", kTokenizerModel, true, true,
                   shard);
  });
}

}  // namespace
}  // namespace lmtrain
