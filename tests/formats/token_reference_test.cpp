#include "formats/token_reference.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <chrono>

#include "base/lost_pages.h"
#include "base/support.h"
#include "formats/damage.h"
#include "formats/token_bytes.h"
#include "formats/token_shard.h"

namespace lmtrain {
namespace {

using testing::error_of;
namespace fs = std::filesystem;

class Reference : public ::testing::Test {
 protected:
  Reference() {
    add_file("two", testing::ids_as<uint16_t>({10, 11, 12, 13, 14, 15}), 0, 6, 2);
    add_file("four", "head" + testing::ids_as<uint32_t>({20, 21, 22, 23}), 4, 4, 4);
    // Parts of the files, in another order, one empty.
    documents_ = {{1, 1, 2, 100}, {0, 0, 3, 200}, {0, 6, 0, 0}, {0, 4, 2, 300}};
    write_token_reference(path(), 30, files_, documents_);
  }
  fs::path path() const { return folder_ / "shard"; }

  void add_file(const std::string& name, const std::string& bytes, uint64_t begin,
                uint64_t num_tokens, uint64_t width) {
    {
      FileWriter writer(folder_ / name);
      writer.write(bytes);
    }
    struct stat info {};
    ASSERT_EQ(::stat((folder_ / name).c_str(), &info), 0);
    files_.push_back({folder_ / name, bytes.size(),
                      info.st_mtim.tv_sec * 1'000'000'000 + info.st_mtim.tv_nsec, begin, num_tokens,
                      width, sum_blocks(bytes)});
  }
  void rewrite(const std::string& name, const std::string& bytes) const {
    fs::remove(folder_ / name);
    FileWriter writer(folder_ / name);
    writer.write(bytes);
  }

  testing::TemporaryFolder folder_;
  std::vector<ReferencedFile> files_;
  std::vector<ReferencedDocument> documents_;
};

TEST_F(Reference, ReadsLikeAnyShard) {
  TokenShard opened(path(), true);
  const TokenShard shard = std::move(opened);
  EXPECT_EQ(shard.num_documents(), 4);
  EXPECT_EQ(shard.num_tokens(), 7);
  EXPECT_EQ(shard.vocab_size(), 30);
  EXPECT_EQ(shard.raw_bytes(3), 300U);
  EXPECT_EQ(shard.document_begin(1), 2);
  EXPECT_EQ(shard.document_size(2), 0);
  const std::vector<int32_t> expected = {21, 22, 10, 11, 12, 14, 15};
  for (size_t begin = 0; begin <= expected.size(); ++begin) {
    for (size_t end = begin; end <= expected.size(); ++end) {
      std::vector<int32_t> tokens(end - begin);
      shard.read_tokens(static_cast<int64_t>(begin), tokens);
      EXPECT_EQ(tokens, std::vector<int32_t>(expected.begin() + static_cast<int64_t>(begin),
                                             expected.begin() + static_cast<int64_t>(end)));
    }
  }
  std::vector<int32_t> beyond(2);
  EXPECT_THROW(shard.read_tokens(6, beyond), Error);
}

TEST_F(Reference, IdsOutsideTheVocabulary) {
  write_token_reference(path(), 22, files_, documents_);
  const TokenShard shard(path(), false);
  std::vector<int32_t> tokens(1);
  shard.read_tokens(0, tokens);
  error_of(ErrorKind::kData, [&] { shard.read_tokens(1, tokens); });
}

TEST_F(Reference, NoDocuments) {
  write_token_reference(path(), 30, files_, {});
  const TokenShard shard(path(), true);
  EXPECT_EQ(shard.num_documents(), 0);
  std::vector<int32_t> none;
  shard.read_tokens(0, none);
}

TEST_F(Reference, FilesThatChanged) {
  const std::string bytes = read_file(folder_ / "two");
  for (const std::string& other : {bytes + "xx", bytes.substr(2), std::string()}) {
    rewrite("two", other);
    EXPECT_NE(error_of(ErrorKind::kData, [&] { TokenShard(path(), false); }).find("has changed"),
              std::string::npos);
  }
  rewrite("two", bytes);  // the same content at another time, whatever the clock's resolution
  fs::last_write_time(folder_ / "two",
                      fs::last_write_time(folder_ / "two") + std::chrono::seconds(1));
  EXPECT_NE(error_of(ErrorKind::kData, [&] { TokenShard(path(), false); }).find("has changed"),
            std::string::npos);
  fs::remove(folder_ / "two");
  EXPECT_NE(error_of(ErrorKind::kData, [&] { TokenShard(path(), false); }).find("cannot be found"),
            std::string::npos);
}

// Written to while it is mapped.
TEST_F(Reference, AFileWrittenToIsFoundByItsTime) {
  const TokenShard shard(path(), false);
  shard.require_unchanged();
  fs::last_write_time(folder_ / "four", fs::file_time_type::clock::now() + std::chrono::hours(1));
  const std::string said = error_of(ErrorKind::kData, [&] { shard.require_unchanged(); });
  EXPECT_EQ(said.find((folder_ / "four").string() + ": it was written to"), 0U) << said;
}

TEST_F(Reference, AFileWrittenToIsFoundByItsBytes) {
  const TokenShard shard(path(), false);
  const auto time = fs::last_write_time(folder_ / "two");
  overwrite_file(folder_ / "two", 8, testing::ids_as<uint16_t>({15, 14}));
  fs::last_write_time(folder_ / "two", time);
  shard.require_unchanged();
  std::vector<int32_t> tokens(2);
  shard.read_tokens(0, tokens);  // of the other file
  const std::string said = error_of(ErrorKind::kData, [&] { shard.read_tokens(2, tokens); });
  EXPECT_EQ(said.find((folder_ / "two").string() + ": the checksum"), 0U) << said;
}

TEST_F(Reference, AFileCutShortIsAnError) {
  handle_lost_pages();
  const TokenShard shard(path(), false);
  truncate_file(folder_ / "four", 0);
  std::vector<int32_t> tokens(2);
  const std::string said = error_of(ErrorKind::kData, [&] { shard.read_tokens(0, tokens); });
  EXPECT_EQ(said.find((folder_ / "four").string() + " was cut short"), 0U) << said;
  shard.read_tokens(2, tokens);
  EXPECT_EQ(tokens, std::vector<int32_t>({10, 11}));
  error_of(ErrorKind::kData, [&] { shard.require_unchanged(); });
}

TEST_F(Reference, AFileReplacedStaysMappedAsItWas) {
  const TokenShard shard(path(), false);
  const std::string other = testing::ids_as<uint16_t>({1, 2, 3});
  testing::replace_file(folder_ / "new", other);
  fs::rename(folder_ / "new", folder_ / "two");
  shard.require_unchanged();
  std::vector<int32_t> tokens(2);
  shard.read_tokens(2, tokens);
  EXPECT_EQ(tokens, std::vector<int32_t>({10, 11}));
}

TEST_F(Reference, ChecksumsOfOtherFilesAreRefused) {
  write_block_sums(block_sums_path(path()), {files_[0].sums});
  error_of(ErrorKind::kData, [&] { TokenShard(path(), false); });
  write_block_sums(block_sums_path(path()), {files_[0].sums, {}});
  error_of(ErrorKind::kData, [&] { TokenShard(path(), false); });
  fs::remove(block_sums_path(path()));
  const TokenShard shard(path(), false);
  error_of(ErrorKind::kData, [&] { shard.write_missing_block_sums(); });
}

TEST_F(Reference, EveryDamageIsNoticed) {
  const std::string whole = read_file(path());
  testing::for_each_damage(whole, whole.size(),
                           [&](const std::string& bytes, const std::string& what) {
                             rewrite("shard", bytes);
                             try {
                               const TokenShard shard(path(), false);
                               ADD_FAILURE() << what;
                             } catch (const Error& error) {
                               EXPECT_EQ(error.kind(), ErrorKind::kData) << what;
                             }
                           });
}

TEST_F(Reference, DocumentsOutsideTheirFile) {
  for (const ReferencedDocument& wrong : std::vector<ReferencedDocument>{
           {0, 0, 7, 0}, {0, 7, 0, 0}, {2, 0, 1, 0}, {0, UINT64_MAX, 2, 0}, {1, 4, 1, 0}}) {
    write_token_reference(path(), 30, files_, std::vector{wrong});
    error_of(ErrorKind::kData, [&] { TokenShard(path(), false); });
  }
}

}  // namespace
}  // namespace lmtrain
