// Several processes, here threads, that prepare the same data together.
#include "corpus/division.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <map>
#include <nlohmann/json.hpp>
#include <random>
#include <thread>

#include "base/files/file.h"
#include "base/text.h"
#include "corpus/folder.h"
#include "corpus/prepare.h"
#include "corpus/threads_as_peers.h"

namespace lmtrain {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;
using testing::ThreadsAsPeers;

class DivisionTest : public ::testing::Test {
 protected:
  DivisionTest() {
    // Some dozen blocks of a quarter of a megabyte.
    std::mt19937_64 random(1);
    for (int file = 0; file < kFiles; ++file) {
      std::string text;
      for (int line = 0; line < 70 + 5 * file; ++line) {
        for (int word = 0; word < 400; ++word) text += str(word, " of ", random() % 100000, ", ");
        text += str("line ", line, " of file ", file, "\n");
      }
      folder_.write(name(file), text);
    }
    config_.data.train = {{folder_.str("corpus"), 1.0}};
    config_.data.format = DataFormat::kLines;
    config_.data.eval_fraction = 0.02;
    config_.tokenizer.model = kTokenizerModel;
  }
  static std::string name(int file) { return str("corpus/", file, ".txt"); }

  Config config_in(const std::string& cache) const {
    Config config = config_;
    config.data.cache_dir = folder_.str(cache);
    return config;
  }
  PreparedData prepare_alone(const std::string& cache) const {
    return prepare_data(config_in(cache), 2);
  }
  // As many ranks as there are caches prepare together; rank r has r + 1 threads. Throws what the
  // first of them has thrown.
  std::vector<PreparedData> prepare_together(const std::vector<std::string>& caches,
                                             const PrepareOptions& options = {}) const {
    std::vector<PreparedData> data(caches.size());
    ThreadsAsPeers peers(static_cast<int>(caches.size()));
    for (const std::exception_ptr& error : peers.run([&](Peers& one) {
           const auto rank = static_cast<size_t>(one.rank());
           PrepareOptions mine = options;
           mine.peers = &one;
           data[rank] = prepare_data(config_in(caches[rank]), one.rank() + 1, mine);
         }))
      if (error) std::rethrow_exception(error);
    return data;
  }

  // Every file of a cache but the empty ones of locks, by its path there.
  std::map<std::string, std::string> files_of(const std::string& cache) const {
    std::map<std::string, std::string> files;
    const fs::path root = folder_.path() / cache;
    for (const auto& entry :
         fs::recursive_directory_iterator(root, fs::directory_options::follow_directory_symlink)) {
      if (entry.is_regular_file() && entry.path().parent_path().filename() != "locks")
        files[entry.path().lexically_relative(root).native()] = read_file(entry.path());
    }
    return files;
  }
  void expect_same_files(const std::string& cache, const std::string& expected) const {
    const auto found = files_of(cache), wanted = files_of(expected);
    EXPECT_GE(wanted.size(), 6U);
    for (const auto& [path, bytes] : wanted)
      EXPECT_TRUE(found.count(path) == 1 && found.at(path) == bytes) << cache << ": " << path;
    for (const auto& [path, bytes] : found)
      EXPECT_EQ(wanted.count(path), 1U) << cache << ": " << path;
  }

  // Prepares alone in a process of its own, which is killed when the journal was saved so often.
  void interrupt_after(int saves, const std::string& cache) const {
    const int status = testing::in_child([&] {
      int left = saves;
      prepare_data(config_in(cache), 2, {milliseconds(0), [&] {
                                           if (--left == 0) ::raise(SIGKILL);
                                         }});
      return 0;
    });
    ASSERT_TRUE(WIFSIGNALED(status)) << cache;
  }
  // The lock that a preparation takes first, after one in `cache`.
  fs::path first_lock(const std::string& cache) const {
    for (const auto& entry : fs::directory_iterator(folder_.path() / cache / "locks"))
      if (entry.path().filename().native().starts_with("index-")) return entry.path();
    return {};
  }

  static constexpr int kFiles = 12;
  Folder folder_;
  Config config_;
};

TEST_F(DivisionTest, EachCacheHasTheBytesOfOneProcess) {
  for (const bool with_eval_text : {false, true}) {
    if (with_eval_text)
      config_.data.eval = {{folder_.str(name(1)), 1.0, "b"}, {folder_.str(name(3)), 1.0, "a"}};
    const std::string kind = with_eval_text ? "eval" : "fraction";
    const PreparedData expected = prepare_alone(kind + "-alone");
    for (const int count : {2, 3, 4}) {
      std::vector<std::string> caches;
      for (int rank = 0; rank < count; ++rank) caches.push_back(str(kind, count, "-", rank));
      const std::vector<PreparedData> data = prepare_together(caches);
      for (size_t rank = 0; rank < caches.size(); ++rank) {
        expect_same_files(caches[rank], kind + "-alone");
        EXPECT_EQ(data[rank].fingerprint, expected.fingerprint);
        EXPECT_EQ(data[rank].train_tokens, expected.train_tokens);
        EXPECT_EQ(data[rank].eval_sources, expected.eval_sources);
      }
    }
  }
}

TEST_F(DivisionTest, LongDocumentsThatAreCut) {
  config_.data.format = DataFormat::kText;  // twelve documents, of which blocks are held out
  prepare_alone("alone");
  prepare_together({"first", "second", "third"});
  for (const char* cache : {"first", "second", "third"}) expect_same_files(cache, "alone");
}

TEST_F(DivisionTest, EachTrainsTheSameTokenizer) {
  config_.tokenizer.model.reset();
  config_.tokenizer.train.vocab_size = 300;
  const PreparedData expected = prepare_alone("alone");
  for (const PreparedData& data : prepare_together({"first", "second"})) {
    EXPECT_EQ(data.fingerprint, expected.fingerprint);
    EXPECT_EQ(read_file(data.tokenizer_model), read_file(expected.tokenizer_model));
    EXPECT_EQ(read_file(data.train_shard), read_file(expected.train_shard));
    EXPECT_EQ(read_file(*data.eval_shard), read_file(*expected.eval_shard));
  }
}

TEST_F(DivisionTest, ASharedFolderIsWrittenByOne) {
  prepare_alone("alone");
  const std::vector<PreparedData> data = prepare_together({"shared", "own", "shared", "shared"});
  for (const char* cache : {"shared", "own"}) expect_same_files(cache, "alone");
  EXPECT_EQ(data[2].train_shard, data[0].train_shard);
  EXPECT_NE(data[1].train_shard, data[0].train_shard);
}

// Each has locks of its own, as where locks do not reach from machine to machine.
TEST_F(DivisionTest, ASharedFolderWithoutLocksIsWrittenByOne) {
  prepare_alone("alone");
  for (const char* cache : {"first", "second", "third"}) {
    fs::create_directories(folder_.path() / cache);
    for (const char* part : {"tokenizers", "shards", "index"}) {
      fs::create_directories(folder_.path() / "shared" / part);
      fs::create_directory_symlink(folder_.path() / "shared" / part, folder_.path() / cache / part);
    }
  }
  std::atomic<int> writers = 0;
  const auto count_writer = [&, last = std::thread::id()]() mutable {
    if (std::exchange(last, std::this_thread::get_id()) == std::thread::id()) ++writers;
  };
  prepare_together({"first", "second", "third"}, {milliseconds(5), count_writer});
  EXPECT_EQ(writers, 1) << "each rank has a copy of the function, and one calls it";
  for (const char* cache : {"first", "second", "third"}) expect_same_files(cache, "alone");
}

TEST_F(DivisionTest, WhoHasItsDataHelpsTheOthers) {
  prepare_alone("alone");
  for (const size_t ready : {0, 1}) {
    const std::vector<std::string> caches = {str("first", ready), str("second", ready)};
    prepare_alone(caches[ready]);
    ::testing::internal::CaptureStderr();
    prepare_together(caches);
    const std::string said = ::testing::internal::GetCapturedStderr();
    expect_contains(said, "tokenized by rank 0 ");
    EXPECT_EQ(said.find("tokenized by rank 0 100 %"), std::string::npos) << said;
    EXPECT_EQ(said.find("rank 1 100 %"), std::string::npos) << said;
    for (const std::string& cache : caches) expect_same_files(cache, "alone");
  }
}

TEST_F(DivisionTest, WhereAllHaveTheirDataNothingIsRead) {
  prepare_alone("first");
  prepare_alone("second");
  ::testing::internal::CaptureStderr();
  prepare_together({"first", "second"});
  const std::string said = ::testing::internal::GetCapturedStderr();
  EXPECT_EQ(said.find("tokenized"), std::string::npos) << said;
  expect_same_files("first", "second");
}

TEST_F(DivisionTest, InterruptedOnesGoOnFromDifferentPlaces) {
  config_.data.train = {{folder_.str("corpus/[0-2].txt"), 1.0}};  // each document is synced
  for (const bool with_eval_text : {false, true}) {
    if (with_eval_text) config_.data.eval = {{folder_.str(name(1)), 1.0}};
    const std::string kind = with_eval_text ? "eval-" : "fraction-";
    int saves = 0;
    prepare_data(config_in(kind + "alone"), 2, {milliseconds(0), [&] { ++saves; }});
    // In the scan, early and late in the tokenization; in data.eval where there is one.
    interrupt_after(3, kind + "0");
    interrupt_after(100, kind + "1");
    interrupt_after(saves - 10, kind + "2");
    ::testing::internal::CaptureStderr();
    prepare_together({kind + "0", kind + "1", kind + "2", kind + "3"});
    const std::string said = ::testing::internal::GetCapturedStderr();
    expect_contains(said, "going on with a preparation");
    EXPECT_EQ(said.find("begins again"), std::string::npos) << said;
    for (int rank = 0; rank < 4; ++rank) expect_same_files(str(kind, rank), kind + "alone");
  }
}

TEST_F(DivisionTest, KilledTogetherAgainAndAgain) {
  prepare_alone("alone");
  std::mt19937_64 random(1);
  const std::vector<std::string> caches = {"first", "second", "third", "third"};
  int kills = 0;
  for (bool is_done = false; !is_done;) {
    // Ever later, so that it comes to an end even if every start begins anew.
    const auto most = static_cast<int>(random() % static_cast<uint64_t>(8 << kills)) + 1;
    const int status = testing::in_child([&] {
      std::atomic<int> left = most;
      prepare_together(caches, {milliseconds(1), [&] {
                                  if (--left == 0) ::raise(SIGKILL);
                                }});
      return 0;
    });
    is_done = WIFEXITED(status);
    ASSERT_TRUE(!is_done || WEXITSTATUS(status) == 0);
    if (!is_done) ++kills;
  }
  EXPECT_GT(kills, 2);
  // What those have left that were killed while they asked for each other's folders.
  for (const std::string& cache : caches) {
    for (const auto& entry : fs::directory_iterator(folder_.path() / cache / "index"))
      if (entry.path().extension() == ".mark") fs::remove(entry.path());
    expect_same_files(cache, "alone");
  }
}

TEST_F(DivisionTest, AFolderThatAnotherRunHasLockedIsFilledAfterwards) {
  prepare_alone("second");
  const fs::path lock_path = first_lock("second");
  prepare_alone("alone");
  for (const char* part : {"index", "shards", "tokenizers"})
    fs::remove_all(folder_.path() / "second" / part);
  auto lock = std::make_unique<FileLock>();
  ASSERT_TRUE(lock->try_acquire(lock_path));
  std::atomic<bool> first_is_done = false;
  ThreadsAsPeers peers(2);
  const auto errors = peers.run([&](Peers& one) {
    PrepareOptions options;
    options.peers = &one;
    std::thread other_run;
    if (one.rank() == 1) {
      other_run = std::thread([&] {
        while (!first_is_done) std::this_thread::sleep_for(milliseconds(5));
        lock.reset();
      });
    }
    prepare_data(config_in(one.rank() == 0 ? "first" : "second"), 1, options);
    if (one.rank() == 0) first_is_done = true;  // though the other folder is still locked
    if (other_run.joinable()) other_run.join();
  });
  for (const std::exception_ptr& error : errors) EXPECT_FALSE(error);
  expect_same_files("first", "alone");
  expect_same_files("second", "alone");
}

TEST_F(DivisionTest, OtherTextIsNamedBeforeItIsEncoded) {
  fs::copy(folder_.path() / "corpus", folder_.path() / "other", fs::copy_options::recursive);
  folder_.write("other/7.txt", "other text\n");
  ThreadsAsPeers peers(3);
  const auto errors = peers.run([&](Peers& one) {
    Config config = config_in(str("cache", one.rank()));
    if (one.rank() == 1) config.data.train = {{folder_.str("other"), 1.0}};
    PrepareOptions options;
    options.peers = &one;
    prepare_data(config, 1, options);
  });
  for (const std::exception_ptr& error : errors) {
    ASSERT_TRUE(error);
    const std::string message = error_of(ErrorKind::kData, [&] { std::rethrow_exception(error); });
    expect_contains(message, "rank 1 has found other data than rank 0");
  }
}

TEST_F(DivisionTest, WhoFailsEndsTheOthers) {
  ThreadsAsPeers peers(3);
  const auto errors = peers.run([&](Peers& one) {
    PrepareOptions options{milliseconds(0), {}, &one};
    int saves = 0;
    options.after_save = [&] {
      if (one.rank() == 1 && ++saves == 200) throw Error(ErrorKind::kMemory, "this one fails");
    };
    prepare_data(config_in(str("cache", one.rank())), 1, options);
  });
  error_of(ErrorKind::kMemory, [&] { std::rethrow_exception(errors[1]); });
  for (const size_t other : {0, 2}) {
    ASSERT_TRUE(errors[other]);
    expect_contains(error_of(ErrorKind::kIo, [&] { std::rethrow_exception(errors[other]); }),
                    "another rank is lost");
  }
  // What they had done is not lost.
  prepare_alone("alone");
  prepare_together({"cache0", "cache1", "cache2"});
  for (const char* cache : {"cache0", "cache1", "cache2"}) expect_same_files(cache, "alone");
}

}  // namespace
}  // namespace lmtrain
