// A preparation that is killed goes on where it was, and gives the same bytes.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <nlohmann/json.hpp>
#include <random>
#include <set>
#include <thread>

#include "base/file.h"
#include "base/text.h"
#include "formats/strict_json.h"
#include "formats/token_shard.h"
#include "prepare/folder.h"
#include "prepare/prepare.h"
#include "text/arrow_files.h"

namespace lmtrain {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;
using std::chrono::milliseconds;

std::vector<std::vector<int32_t>> documents_of(const fs::path& path) {
  const TokenShard shard(path, true);
  std::vector<std::vector<int32_t>> documents;
  for (int64_t i = 0; i < shard.num_documents(); ++i) {
    documents.emplace_back(static_cast<size_t>(shard.document_size(i)));
    shard.read_tokens(shard.document_begin(i), documents.back());
  }
  return documents;
}

class Resume : public ::testing::Test {
 protected:
  Resume() {
    for (int file = 0; file < kFiles; ++file) {
      std::string lines;
      for (int i = 0; i < kDocuments; ++i) {
        std::string text = str("document ", i, " of file ", file, "\n");
        for (int k = 0; k < (i * 7 + file) % 20; ++k) text += str("  line ", k * i, " of it\n");
        lines += Json{{"text", text}}.dump() + "\n";
        if (i % 30 == 0) lines += "\n";  // blank
      }
      folder_.write(name(file), lines);
    }
    config_.data.train = {{folder_.str("corpus"), 1.0}};
    config_.data.eval_fraction = 0.1;
    config_.tokenizer.train.vocab_size = 300;
  }
  static std::string name(int file) { return str("corpus/", file, ".jsonl"); }

  // Prepares in a process of its own, saving after every document. True when it came to its end,
  // false when it was killed: by itself in `after_save`, or after a while.
  bool prepare_killed(const std::function<void()>& after_save, std::chrono::microseconds wait) {
    const pid_t child = ::fork();
    if (child == 0) {
      int code = 1;
      try {
        prepare_data(config_, 2, {milliseconds(0), after_save});
        code = 0;
      } catch (...) {  // the code says it
      }
      ::_exit(code);
    }
    std::this_thread::sleep_for(wait);
    if (wait.count() > 0) ::kill(child, SIGKILL);
    int status = -1;
    EXPECT_EQ(::waitpid(child, &status, 0), child);
    if (WIFSIGNALED(status)) return false;
    EXPECT_EQ(status, 0);
    return true;
  }

  // The documents that the journal says are in the shards; -1 without it.
  int64_t documents_done() const {
    for (const auto& entry : fs::directory_iterator(folder_.path() / "cache/index")) {
      if (entry.path().extension() != ".journal") continue;
      const Json journal = Json::parse(read_file(entry.path()));
      if (!journal.contains("tokens")) return 0;
      const Json& next = journal["tokens"]["next"];
      return next[0].get<int64_t>() * kDocuments + next[1].get<int64_t>();
    }
    return -1;
  }

  PreparedData prepare_in(const std::string& cache) {
    config_.data.cache_dir = folder_.str(cache);
    return prepare_data(config_, 2);
  }
  void expect_same(const PreparedData& data, const PreparedData& other) {
    EXPECT_EQ(data.fingerprint, other.fingerprint);
    EXPECT_EQ(read_file(data.tokenizer_model), read_file(other.tokenizer_model));
    EXPECT_EQ(read_file(data.train_shard), read_file(other.train_shard));
    ASSERT_TRUE(data.eval_shard && other.eval_shard);
    EXPECT_EQ(read_file(*data.eval_shard), read_file(*other.eval_shard));
    EXPECT_EQ(data.train_bytes, other.train_bytes);
    EXPECT_EQ(data.eval_bytes, other.eval_bytes);
    EXPECT_EQ(data.eval_sources, other.eval_sources);
  }
  // Killed when at least this many documents are in the shards.
  void interrupt_at(int64_t documents) {
    config_.data.cache_dir = folder_.str("cache");
    fs::create_directories(folder_.path() / "cache/index");
    const auto kill_here = [&] {
      if (documents_done() >= documents) ::raise(SIGKILL);
    };
    ASSERT_FALSE(prepare_killed(kill_here, {}));
    ASSERT_GE(documents_done(), documents);
  }

  static constexpr int kFiles = 5;
  static constexpr int kDocuments = 20;
  Folder folder_;
  Config config_;
};

TEST_F(Resume, KilledAgainAndAgainItGivesTheSameBytes) {
  for (const bool with_eval_text : {false, true}) {
    config_.data.train = {{folder_.str(name(0)), 1.0}, {folder_.str("corpus"), 1.0}};
    if (with_eval_text)
      config_.data.eval = {{folder_.str(name(1)), 1.0, "b"}, {folder_.str(name(3)), 1.0, "a"}};
    const PreparedData expected = prepare_in(str("expected", with_eval_text));
    ASSERT_FALSE(expected.eval_sources.empty());
    const std::string cache = str("killed", with_eval_text);
    config_.data.cache_dir = folder_.str(cache);
    std::mt19937_64 random(1);
    int kills = 0;
    // Ever later, so that it comes to an end even if every start begins anew.
    for (int patience = 2000;; patience += patience / 10) {
      const std::chrono::microseconds wait(1 + random() % static_cast<uint64_t>(patience));
      if (prepare_killed([] {}, wait)) break;
      ++kills;
    }
    EXPECT_GT(kills, 3);
    const PreparedData data = prepare_in(cache);
    expect_same(data, expected);
    for (const auto& entry : fs::directory_iterator(data.train_shard.parent_path())) {
      const std::string left = entry.path().filename().native();
      EXPECT_TRUE(left == "train.bin" || left == "eval.bin" || left == "info.json" ||
                  left == "train.bin.sums" || left == "eval.bin.sums")
          << left;
    }
    for (const auto& entry : fs::directory_iterator(folder_.path() / cache / "index"))
      EXPECT_NE(entry.path().extension(), ".journal");
  }
}

// The kill came after the index was stored, or while a journal was written.
TEST_F(Resume, AJournalLeftByAKillAtTheEndIsRemoved) {
  prepare_in("cache");
  const fs::path index = folder_.path() / "cache/index";
  std::vector<fs::path> left;
  for (const auto& entry : fs::directory_iterator(index)) {
    if (entry.path().extension() != ".json") continue;
    for (const char* ending : {".journal", ".journal.tmp"})
      left.push_back(fs::path(entry.path()).replace_extension(ending));
  }
  ASSERT_EQ(left.size(), 2U);
  for (const fs::path& path : left) write_file_atomic(path, "{}");
  prepare_in("cache");
  for (const fs::path& path : left) EXPECT_FALSE(fs::exists(path)) << path;
}

TEST_F(Resume, WhatIsDoneIsNotReadAgain) {
  const PreparedData expected = prepare_in("expected");
  interrupt_at(kDocuments + 3);
  // Other text of the same size and time in what is done: only a reader would notice.
  const fs::path path = folder_.path() / name(0);
  struct stat before {};
  ASSERT_EQ(::stat(path.c_str(), &before), 0);
  const size_t offset = read_file(path).find("document");
  const int fd = ::open(path.c_str(), O_WRONLY);
  ASSERT_EQ(::pwrite(fd, "D", 1, static_cast<off_t>(offset)), 1);
  const timespec times[] = {before.st_atim, before.st_mtim};
  ASSERT_EQ(::futimens(fd, times), 0);
  ::close(fd);
  const PreparedData data = prepare_in("cache");
  EXPECT_EQ(data.fingerprint, expected.fingerprint) << "the scan is remembered";
  EXPECT_EQ(read_file(data.train_shard), read_file(expected.train_shard));
}

TEST_F(Resume, ChangedTextIsNoticedWhereItIsStillRead) {
  interrupt_at(kDocuments);
  folder_.write(name(4), "{\"text\": \"short\"}\n");  // another size: another request
  const PreparedData data = prepare_in("cache");
  EXPECT_EQ(data.train_documents + data.eval_documents, 4 * kDocuments + 1);
}

TEST_F(Resume, InsideTablesAndCompressedFiles) {
  testing::Rows rows;
  std::string lines;
  for (int i = 0; i < 60; ++i) {
    rows.push_back(str("row ", i, std::string(static_cast<size_t>(i), '.')));
    if (i % 10 == 3) rows.back().reset();
    lines += str("line ", i, "\n");
  }
  testing::ParquetOptions options;
  options.rows_per_group = 8;
  folder_.write("table/a.parquet", testing::parquet_bytes(*testing::table_of(rows), options));
  folder_.write("table/b.arrow", testing::arrow_stream_bytes(*testing::table_of(rows), 7));
  folder_.write("lines/a.txt.gz", testing::compressed(lines, Compression::kGzip));
  for (const char* path : {"table/a.parquet", "table/b.arrow", "lines/a.txt.gz"}) {
    config_.data.train = {{folder_.str(path), 1.0}};
    config_.data.format =
        std::string(path).starts_with("lines") ? DataFormat::kLines : DataFormat::kAuto;
    config_.tokenizer.train.vocab_size = 280;
    const PreparedData expected = prepare_in("expected");
    interrupt_at(20);
    expect_same(prepare_in("cache"), expected);
    fs::remove_all(folder_.path() / "cache");  // the shards of both tables are the same
  }
}

TEST_F(Resume, WhatIsDamagedBeginsAgain) {
  const PreparedData expected = prepare_in("expected");
  config_.data.cache_dir = folder_.str("cache");
  const auto journal = [&] {
    for (const auto& entry : fs::directory_iterator(folder_.path() / "cache/index"))
      if (entry.path().extension() == ".journal") return entry.path();
    return fs::path();
  };
  const auto shard_file = [&](const std::string& file) {
    return folder_.path() / "cache/shards" / expected.fingerprint / file;
  };
  const std::vector<std::function<void()>> damages = {
      [&] { truncate_file(journal(), 100); },
      [&] { write_file_atomic(journal(), "{}"); },
      [&] {
        write_file_atomic(journal(), checked_json_text({{"version", 1}}));
      },
      [&] {
        write_file_atomic(journal(), checked_json_text({{"version", 2}, {"train", {1}}}));
      },
      [&] { truncate_file(shard_file("train.bin.tmp"), 70); },
      [&] { overwrite_file(shard_file("train.bin.tmp"), 65, "\xFF"); },
      [&] { overwrite_file(shard_file("train.bin.index.tmp"), 3, "\x01"); },
      [&] { fs::remove(shard_file("eval.bin.hashes")); },
      [&] { fs::remove_all(shard_file("")); },
  };
  for (size_t i = 0; i < damages.size(); ++i) {
    interrupt_at(5);
    damages[i]();
    ::testing::internal::CaptureStderr();
    expect_same(prepare_in("cache"), expected);
    expect_contains(::testing::internal::GetCapturedStderr(), "begins again");
    fs::remove_all(folder_.path() / "cache");
  }
}

// A sample of its bits, and digits that give another number.
TEST_F(Resume, ADamagedJournalIsNotTrusted) {
  config_.data.train = {{folder_.str("corpus/[024].jsonl"), 1.0}, {folder_.str("corpus"), 1.0}};
  const PreparedData expected = prepare_in("expected");
  config_.data.cache_dir = folder_.str("cache");
  interrupt_at(30);
  const fs::path kept = folder_.path() / "kept";
  fs::copy(folder_.path() / "cache", kept, fs::copy_options::recursive);
  fs::path name;
  for (const auto& entry : fs::directory_iterator(kept / "index"))
    if (entry.path().extension() == ".journal") name = entry.path().filename();
  const std::string journal = read_file(kept / "index" / name);
  std::vector<std::string> damaged;
  for (size_t bit = 5; bit < 8 * journal.size(); bit += 8 * journal.size() / 50) {
    damaged.push_back(journal);
    damaged.back()[bit / 8] = static_cast<char>(journal[bit / 8] ^ (1 << (bit % 8)));
  }
  for (const char* field : {"\"documents\":", "\"content\":[", "\"train_bytes\":", "\"bytes\":"}) {
    const size_t digit = journal.find(field) + std::string(field).size();
    damaged.push_back(journal);
    damaged.back()[digit] = journal[digit] == '1' ? '2' : '1';
  }
  for (const std::string& text : damaged) {
    fs::remove_all(folder_.path() / "cache");
    fs::copy(kept, folder_.path() / "cache", fs::copy_options::recursive);
    testing::replace_file(folder_.path() / "cache/index" / name, text);
    ::testing::internal::CaptureStderr();
    const PreparedData data = prepare_in("cache");
    expect_contains(::testing::internal::GetCapturedStderr(), "begins again");
    expect_same(data, expected);
    EXPECT_EQ(data.train_documents, expected.train_documents);
    ASSERT_EQ(data.sources.size(), expected.sources.size());
    for (size_t i = 0; i < data.sources.size(); ++i)
      EXPECT_EQ(data.sources[i].first_document, expected.sources[i].first_document);
  }
}

TEST_F(Resume, SourcesOfTheDocuments) {
  // By path: 0 of source 1, 1 and 2 of source 0, 3 of source 1, 4 of source 0.
  config_.data.train = {{folder_.str(name(1)), 1.0}, {folder_.str(name(0)), 1.0}};
  config_.data.train.push_back({folder_.str(name(3)), 1.0});
  config_.data.train[0].path = folder_.str("corpus/[124].jsonl");
  const auto sources_of = [&](const PreparedData& data) {
    std::vector<int32_t> sources;
    for (size_t i = 0; i < data.sources.size(); ++i) {
      const int64_t end =
          i + 1 < data.sources.size() ? data.sources[i + 1].first_document : data.train_documents;
      for (int64_t k = data.sources[i].first_document; k < end; ++k)
        sources.push_back(data.sources[i].source);
    }
    return sources;
  };
  const std::vector<int32_t> of_file = {1, 0, 0, 2, 0};
  for (const double fraction : {0.0, 0.1, 1e-15}) {
    config_.data.eval_fraction = fraction;
    const PreparedData data = prepare_in("cache");
    const std::vector<int32_t> sources = sources_of(data);
    ASSERT_EQ(static_cast<int64_t>(sources.size()), data.train_documents);
    // What each file holds, from preparing it alone, without those that are held out.
    std::set<std::vector<int32_t>> held_out;
    if (data.eval_shard) {
      for (std::vector<int32_t>& ids : documents_of(*data.eval_shard))
        held_out.insert(std::move(ids));
    }
    std::vector<int32_t> expected;
    for (int file = 0; file < kFiles; ++file) {
      Config one = config_;
      one.tokenizer.model = data.tokenizer_model.native();
      one.data.train = {{folder_.str(name(file)), 1.0}};
      one.data.eval_fraction = 0;
      const PreparedData part = prepare_data(one, 1);
      EXPECT_EQ(part.sources.size(), 1U);
      for (const std::vector<int32_t>& ids : documents_of(part.train_shard)) {
        if (held_out.count(ids) == 0) expected.push_back(of_file[static_cast<size_t>(file)]);
      }
    }
    EXPECT_EQ(sources, expected);
    EXPECT_EQ(data.sources.size(), 4U);
    // Remembered, and of the request, not of the shards.
    EXPECT_EQ(sources_of(prepare_in("cache")), sources);
    Config other = config_;
    other.data.train = {{folder_.str("corpus"), 1.0}};
    const PreparedData whole = prepare_data(other, 1);
    EXPECT_EQ(whole.train_shard, data.train_shard);
    EXPECT_EQ(whole.sources.size(), 1U);
  }
}

}  // namespace
}  // namespace lmtrain
