// A second preparation of the same text: what the cache saves, and what it must not be trusted
// with.
#include "base/file.h"
#include "prepare/cache.h"
#include "prepare/prepare_fixture.h"

namespace lmtrain {
namespace {

namespace fs = std::filesystem;

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
  EXPECT_EQ(files.size(), 9U);
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

// Caches that were made before the blocks of shards had checksums.
TEST_F(Prepare, MissingChecksumsOfBlocksAreMadeWithoutReadingText) {
  const PreparedData first = prepare();
  const fs::path sums = block_sums_path(first.train_shard);
  const std::string bytes = read_file(sums);
  const auto time = fs::last_write_time(first.train_shard);
  fs::remove(sums);
  prepare();
  EXPECT_EQ(read_file(sums), bytes);
  EXPECT_EQ(fs::last_write_time(first.train_shard), time) << "the shard stays";
}

// Another process writes them, or makes the shard anew.
TEST_F(Prepare, MissingChecksumsOfBlocksAreLeftToWhoeverHasTheLock) {
  const PreparedData first = prepare();
  const fs::path sums = block_sums_path(first.train_shard);
  fs::remove(sums);
  std::optional<FileLock> lock = Cache(folder_ / "cache").try_lock("shards", first.fingerprint);
  ASSERT_TRUE(lock);
  prepare();
  EXPECT_FALSE(fs::exists(sums));
  lock.reset();
  prepare();
  EXPECT_TRUE(fs::exists(sums));
}

TEST_F(Prepare, FilesByFormatAreSaidAgainAtACachedStart) {
  const auto said = [&] {
    ::testing::internal::CaptureStderr();
    prepare();
    return ::testing::internal::GetCapturedStderr();
  };
  const std::string before = said();
  const size_t begin = before.find("; ", before.find("train and held-out text: ")) + 2;
  const std::string formats = before.substr(begin, before.find(')', begin) + 1 - begin);
  expect_contains(formats, " files as ");
  EXPECT_EQ(before.find("prepared before"), std::string::npos);
  expect_contains(said(), "prepared before: data.train " + formats + "\n");
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

// What the text is like is said by every start, not by that alone which read it.
TEST_F(Prepare, WhatIsOddAboutTheTextIsSaidAgainAtACachedStart) {
  folder_.write(name(0), "bad \xFF byte");
  folder_.write(name(1), "");
  folder_.write(name(2), std::string("a\0b", 3));
  folder_.write("corpus/rows.jsonl", "{\"text\": \"a\"}\n\n{\"text\": null}\n");
  folder_.write("eval/a.txt", "also \xFF");
  config_.data.eval = {{{folder_.str("eval"), 1.0}}};
  for (int start = 0; start < 3; ++start) {
    ::testing::internal::CaptureStderr();
    prepare();
    const std::string said = ::testing::internal::GetCapturedStderr();
    EXPECT_EQ(said.find("prepared before") != std::string::npos, start > 0);
    expect_contains(said, "warning: /data/train: 1 of 61 documents are not valid UTF-8");
    expect_contains(said, "warning: /data/eval: 1 of 1 documents are not valid UTF-8");
    expect_contains(said,
                    "1 empty document, 1 blank lines skipped, 1 nulls skipped, 1 document "
                    "with NUL bytes");
  }
}

TEST_F(Prepare, BadLinesAreSkippedUpToOneOfAThousand) {
  std::string lines;
  for (int i = 0; i < 1998; ++i) lines += str("{\"text\": \"line ", i, "\"}\n");
  const std::string bad = "{\"text\": \"x\\ud800\"}\n";
  folder_.write("a.jsonl", lines);
  config_.data.train = {{folder_.str("a.jsonl"), 1.0}};
  const std::string fingerprint = prepare().fingerprint;
  folder_.write("a.jsonl", bad + lines + bad);
  expect_contains(error_of(ErrorKind::kData, [&] { prepare(); }), "a.jsonl:1: not JSON at column");
  config_.data.on_bad_line = OnBadLine::kSkip;
  for (int start = 0; start < 2; ++start) {
    ::testing::internal::CaptureStderr();
    const PreparedData data = prepare();
    const std::string said = ::testing::internal::GetCapturedStderr();
    EXPECT_EQ(data.fingerprint, fingerprint) << "the documents are the same";
    EXPECT_EQ(data.train_text.skipped.bad_lines, 2);
    expect_contains(said, "warning: /data/train: 2 of 2000 lines of JSON lines skipped");
    expect_contains(said, "a.jsonl:1: not JSON");
    expect_contains(said, "a.jsonl:2000: not JSON");
  }
  folder_.write("a.jsonl", bad + lines + bad + bad);
  const std::string message = error_of(ErrorKind::kData, [&] { prepare(); });
  expect_contains(message, "/data/train: 3 of 2001 lines");
  expect_contains(message, "0.1 % may be skipped, here 2: ");
  folder_.write("a.jsonl", bad + "{\"text\": \"x\"}\n");
  const std::string few = error_of(ErrorKind::kData, [&] { prepare(); });
  expect_contains(few, "/data/train: 1 of 2 lines");
  expect_contains(few, "0.1 % may be skipped, here 0 (none of fewer than 1000 lines)");
}

}  // namespace
}  // namespace lmtrain
