// Text held out of files by prepare_data: nothing is lost, and nothing is on both sides.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <map>
#include <random>
#include <set>
#include <thread>

#include "base/file.h"
#include "base/hash.h"
#include "base/text.h"
#include "formats/token_bytes.h"
#include "formats/token_shard.h"
#include "prepare/folder.h"
#include "prepare/prepare.h"
#include "prepare/source_runs.h"
#include "tokenizer/tokenizer.h"

namespace lmtrain {
namespace {

namespace fs = std::filesystem;
using Ids = std::vector<int32_t>;

class Split : public ::testing::Test {
 protected:
  Split() {
    config_.data.train = {{folder_.str("corpus"), 1.0}};
    config_.data.cache_dir = folder_.str("cache");
    config_.tokenizer.model = kTokenizerModel;
  }

  // Lines that are all different.
  std::string text(size_t size) {
    std::string text;
    while (text.size() < size) text += str("line ", random_() % 1'000'000'000, " of a text\n");
    return text;
  }
  void write(const std::string& name, const std::string& text) {
    texts_[folder_.write(name, text).native()] = text;
  }
  PreparedData prepare(int num_threads = 2) const { return prepare_data(config_, num_threads); }

  std::vector<Ids> ids_of(const fs::path& path) const {
    const TokenShard shard(path, true);
    std::vector<Ids> documents;
    for (int64_t i = 0; i < shard.num_documents(); ++i) {
      documents.emplace_back(static_cast<size_t>(shard.document_size(i)));
      shard.read_tokens(shard.document_begin(i), documents.back());
    }
    return documents;
  }
  std::string text_of(const Ids& ids) const {
    EXPECT_EQ(ids.front(), tokenizer_.bos_id());
    EXPECT_EQ(ids.back(), tokenizer_.eos_id());
    return tokenizer_.decode({ids.begin() + 1, ids.end() - 1});
  }

  // Each file is the held-out texts in it and the training texts that the table says are of it.
  void expect_every_byte_once(const PreparedData& data) const {
    std::map<std::string, std::string> rest = texts_;
    const auto remove = [&](const std::string& text, const std::string& path) {
      std::string& file = rest.at(path);
      const size_t offset = file.find(text);
      ASSERT_NE(offset, std::string::npos) << path;
      file.replace(offset, text.size(), "|");
    };
    const std::vector<Ids> train = ids_of(data.train_shard);
    std::string all_of_train;
    for (size_t i = 0; i < train.size(); ++i) {
      const auto paths = files_of_documents(data.document_files, {static_cast<int64_t>(i)});
      ASSERT_EQ(paths.size(), 1U);
      remove(text_of(train[i]), paths[0]);
      all_of_train += text_of(train[i]) + "|";
    }
    for (const Ids& ids : ids_of(*data.eval_shard)) {
      const std::string held_out = text_of(ids);
      EXPECT_EQ(all_of_train.find(held_out), std::string::npos) << "in both";
      for (const auto& [path, whole] : texts_)
        if (whole.find(held_out) != std::string::npos) remove(held_out, path);
    }
    for (const auto& [path, left] : rest)
      EXPECT_EQ(left.find_first_not_of('|'), std::string::npos) << path << ": " << left;
  }

  double share_of(const PreparedData& data) const {
    return static_cast<double>(data.eval_bytes) /
           static_cast<double>(data.eval_bytes + data.train_bytes);
  }

  std::mt19937_64 random_{1};
  Folder folder_;
  Config config_;
  Tokenizer tokenizer_ = Tokenizer::load(kTokenizerModel);
  std::map<std::string, std::string> texts_;
};

TEST_F(Split, OneFile) {
  write("corpus/input.txt", text(1'100'000));
  const PreparedData data = prepare();
  ASSERT_TRUE(data.eval_shard);
  EXPECT_GE(data.eval_bytes, 65536);
  EXPECT_LT(data.eval_bytes, 73000);
  EXPECT_GE(data.eval_tokens, 10'000);
  expect_every_byte_once(data);
}

TEST_F(Split, SmallFilesOfTwoSources) {
  for (int i = 0; i < 300; ++i) write(str("corpus/a/", i), text(random_() % 6000 + 100));
  for (int i = 0; i < 9; ++i) write(str("corpus/b/", i), text(30'000));
  config_.data.train = {{folder_.str("corpus/a"), 1.0}, {folder_.str("corpus/b"), 4.0}};
  const PreparedData data = prepare();
  EXPECT_GE(data.eval_bytes, 65536);
  EXPECT_LT(share_of(data), 0.1);
  expect_every_byte_once(data);
  // Both sources hold some out.
  std::set<char> sources;
  for (const Ids& ids : ids_of(*data.eval_shard)) {
    for (const auto& [path, whole] : texts_) {
      if (whole.find(text_of(ids)) != std::string::npos)
        sources.insert(path[folder_.str("corpus/").size()]);
    }
  }
  EXPECT_EQ(sources, std::set<char>({'a', 'b'}));
  ASSERT_EQ(data.sources.size(), 2U);
  const auto first_of_b = files_of_documents(data.document_files, {data.sources[1].first_document});
  EXPECT_EQ(first_of_b, std::vector<std::string>({folder_.str("corpus/b/0")}));
}

// Runs go on from checkpoints that hold this fingerprint, so it must not change.
TEST_F(Split, ManyShortDocumentsGiveTheShardsTheyAlwaysGave) {
  std::string lines;
  for (int i = 0; i < 1000; ++i) {
    lines += str("document number ", i);
    for (int k = 0; k < i % 17; ++k) lines += " of many";
    lines += "\n";
  }
  folder_.write("a.txt", lines);
  config_.data.train = {{folder_.str("a.txt"), 1.0}};
  config_.data.format = DataFormat::kLines;
  config_.data.eval_fraction = 0.1;
  const PreparedData data = prepare();
  EXPECT_EQ(data.fingerprint, "036b883b1544a84b9ff31fb011882096");
  EXPECT_EQ(hash128(read_file(data.train_shard)).hex(), "fe7f30d0ca03aac0039469d06215a419");
  EXPECT_EQ(hash128(read_file(*data.eval_shard)).hex(), "a60a757ceef76dcdb02888d969349853");
}

TEST_F(Split, TheNumberOfThreadsDoesNotMatter) {
  write("corpus/long.txt", text(400'000));
  for (int i = 0; i < 20; ++i) write(str("corpus/", i), text(random_() % 20'000));
  config_.tokenizer.model.reset();
  config_.tokenizer.train.vocab_size = 300;
  for (const TokenizerType type : {TokenizerType::kBpe, TokenizerType::kByteBpe}) {
    config_.tokenizer.train.type = type;
    std::set<std::string> results;
    for (const int threads : {1, 2, 4}) {
      config_.data.cache_dir = folder_.str(str("cache", threads));
      const PreparedData data = prepare(threads);
      results.insert(data.fingerprint + read_file(data.tokenizer_model) +
                     read_file(data.train_shard) + read_file(*data.eval_shard) +
                     read_file(data.document_files));
    }
    EXPECT_EQ(results.size(), 1U);
  }
}

// A tokenizer that has seen no held-out text: the same as one made of the training side.
TEST_F(Split, TheTokenizerSeesNoHeldOutBlock) {
  write("corpus/long.txt", text(200'000));
  config_.tokenizer.model.reset();
  config_.tokenizer.train.vocab_size = 300;
  const PreparedData data = prepare();
  const Tokenizer tokenizer = Tokenizer::load(data.tokenizer_model);
  EXPECT_EQ(train_tokenizer(config_.tokenizer,
                            [&](const TextSink& add) {
                              for (const Ids& ids : ids_of(data.train_shard))
                                add(tokenizer.decode({ids.begin() + 1, ids.end() - 1}));
                            }),
            tokenizer.files());
}

TEST_F(Split, KilledAgainAndAgainItGivesTheSameBlocks) {
  for (int i = 0; i < 30; ++i) write(str("corpus/", i), text(random_() % 12'000));
  write("corpus/long.txt", text(150'000));
  config_.tokenizer.model.reset();
  config_.tokenizer.train.vocab_size = 300;
  config_.data.cache_dir = folder_.str("expected");
  const PreparedData expected = prepare();
  config_.data.cache_dir = folder_.str("killed");
  // The k-th run is killed behind its k-th save, so each goes on a little further.
  int kills = 0;
  for (bool done = false; !done; ++kills) {
    const pid_t child = ::fork();
    if (child == 0) {
      int saves = 0;
      try {
        prepare_data(config_, 2, {std::chrono::milliseconds(0), [&] {
                                    if (++saves == 3 + kills / 4) ::raise(SIGKILL);
                                  }});
      } catch (...) {
        ::_exit(1);
      }
      ::_exit(0);
    }
    int status = -1;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    done = !WIFSIGNALED(status);
    EXPECT_TRUE(!done || status == 0) << status;
    ASSERT_LT(kills, 200);
  }
  EXPECT_GT(kills, 5);
  const PreparedData data = prepare();
  EXPECT_EQ(data.fingerprint, expected.fingerprint);
  EXPECT_EQ(read_file(data.tokenizer_model), read_file(expected.tokenizer_model));
  EXPECT_EQ(read_file(data.train_shard), read_file(expected.train_shard));
  EXPECT_EQ(read_file(*data.eval_shard), read_file(*expected.eval_shard));
  EXPECT_EQ(read_file(data.document_files), read_file(expected.document_files));
}

// Shards that are there already, of a request that is new: the files are counted again.
TEST_F(Split, FilesOfShardsThatAreThere) {
  for (int i = 0; i < 30; ++i) write(str("corpus/", i), text(random_() % 9000));
  const PreparedData first = prepare();
  for (const auto& [path, whole] : texts_)
    fs::last_write_time(path, fs::file_time_type::clock::now());
  const PreparedData second = prepare();
  EXPECT_EQ(second.train_shard, first.train_shard);
  EXPECT_NE(second.document_files, first.document_files);
  EXPECT_EQ(read_file(second.document_files), read_file(first.document_files));
}

TEST_F(Split, EvaluationTextThatIsTrainedOnIsCounted) {
  const auto said = [&] {
    ::testing::internal::CaptureStderr();
    prepare();
    return ::testing::internal::GetCapturedStderr();
  };
  for (int i = 0; i < 8; ++i) write(str("corpus/", i), text(1000));
  config_.data.eval = config_.data.train;
  expect_contains(said(),
                  "8 of the 8 evaluation documents (100.0 % of their bytes) are in data.train too");
  expect_contains(said(), "8 of the 8 evaluation documents");  // remembered
  folder_.write("eval/1", texts_.at(folder_.str("corpus/1")));
  folder_.write("eval/2", text(3000));
  config_.data.eval = {{{folder_.str("eval"), 1.0}}};
  expect_contains(said(), "1 of the 2 evaluation documents (2");
  fs::remove(folder_.path() / "eval/1");
  EXPECT_EQ(said().find("too"), std::string::npos);
}

TEST_F(Split, LittleHeldOutTextIsSaid) {
  config_.data.format = DataFormat::kLines;
  write("corpus/a.txt", text(20'000));
  ::testing::internal::CaptureStderr();
  const PreparedData data = prepare();
  const std::string said = ::testing::internal::GetCapturedStderr();
  EXPECT_GE(data.eval_documents, 1);
  expect_contains(said, str("held-out text of ", data.eval_tokens,
                            " tokens: its loss has a standard error of about "));
}

// nanoGPT's train.bin: ids without any separator.
TEST_F(Split, TokensOfOneDocument) {
  config_.data.format = DataFormat::kTokens;
  Ids ids;
  for (int i = 0; i < 400'000; ++i) ids.push_back(3 + static_cast<int32_t>(random_() % 380));
  folder_.write("corpus/train.bin", testing::ids_as<uint16_t>(ids));
  const PreparedData data = prepare();
  ASSERT_TRUE(data.eval_shard);
  EXPECT_GE(data.eval_tokens, 16384);
  EXPECT_LT(data.eval_tokens, 16384 + 2048);
  EXPECT_EQ(data.train_tokens + data.eval_tokens, 400'000);
  // Put together again.
  std::map<size_t, Ids> parts;
  for (const fs::path& shard : {data.train_shard, *data.eval_shard}) {
    for (const Ids& part : ids_of(shard)) {
      const auto found = std::search(ids.begin(), ids.end(), part.begin(),
                                     part.begin() + std::min<int64_t>(20, std::ssize(part)));
      parts[static_cast<size_t>(found - ids.begin())] = part;
    }
  }
  EXPECT_GT(parts.size(), 15U);
  Ids together;
  for (const auto& [offset, part] : parts) {
    ASSERT_EQ(offset, together.size());
    together.insert(together.end(), part.begin(), part.end());
  }
  EXPECT_EQ(together, ids);
  EXPECT_EQ(files_of_documents(data.document_files, {0, data.train_documents - 1}),
            std::vector<std::string>({folder_.str("corpus/train.bin")}));
  EXPECT_EQ(prepare().fingerprint, data.fingerprint);
}

TEST_F(Split, TokensBySource) {
  config_.data.format = DataFormat::kTokens;
  const int32_t eos = tokenizer_.eos_id();
  const auto random_ids = [&](int documents, int size) {
    Ids ids;
    for (int i = 0; i < documents; ++i) {
      for (int k = 0; k < size; ++k) ids.push_back(3 + static_cast<int32_t>(random_() % 380));
      ids.push_back(eos);
    }
    return testing::ids_as<uint16_t>(ids);
  };
  folder_.write("corpus/long.bin", random_ids(2, 200'000));
  folder_.write("corpus/short.bin", random_ids(4000, 100));
  config_.data.train = {{folder_.str("corpus/long.bin"), 1.0},
                        {folder_.str("corpus/short.bin"), 1.0}};
  config_.data.eval_fraction = 0.05;
  const PreparedData data = prepare();
  int64_t tokens_of_long = 0;
  int64_t tokens_of_short = 0;
  for (const Ids& part : ids_of(*data.eval_shard))
    (part.size() == 101 && part.back() == eos ? tokens_of_short : tokens_of_long) +=
        std::ssize(part);
  EXPECT_GE(tokens_of_long, 20'000);
  EXPECT_LT(tokens_of_long, 24'000);
  EXPECT_GT(tokens_of_short, 14'000);
  EXPECT_LT(tokens_of_short, 27'000);
  ASSERT_EQ(data.sources.size(), 2U);
}

TEST_F(Split, TokensOfEvaluationThatAreTrainedOnAreCounted) {
  config_.data.format = DataFormat::kTokens;
  const int32_t eos = tokenizer_.eos_id();
  folder_.write("corpus/a.bin", testing::ids_as<uint16_t>({5, 6, 7, eos, 8, 9, eos}));
  folder_.write("eval.bin", testing::ids_as<uint16_t>({8, 9, eos, 10, eos, 11, eos}));
  config_.data.eval = {{{folder_.str("eval.bin"), 1.0}}};
  const PreparedData data = prepare();
  EXPECT_EQ(data.eval_in_train.documents, 1);
  EXPECT_EQ(data.eval_in_train.of_documents, 3);
}

}  // namespace
}  // namespace lmtrain
