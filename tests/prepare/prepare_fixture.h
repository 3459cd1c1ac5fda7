// The corpus that the tests of prepare_data prepare.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <string>
#include <vector>

#include "base/text.h"
#include "formats/token_shard.h"
#include "prepare/folder.h"
#include "prepare/prepare.h"
#include "tokenizer/tokenizer.h"

namespace lmtrain {

// The documents of a shard as text.
inline std::vector<std::string> texts_of(const std::filesystem::path& path,
                                         const Tokenizer& tokenizer) {
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

// Sixty documents, a file each, and their preparation.
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
    for (const auto& entry : std::filesystem::recursive_directory_iterator(folder_ / "corpus")) {
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

}  // namespace lmtrain
