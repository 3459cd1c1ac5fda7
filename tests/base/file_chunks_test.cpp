#include "base/file_chunks.h"

#include <gtest/gtest.h>

#include <random>
#include <thread>

#include "base/error.h"
#include "base/file.h"
#include "base/support.h"

namespace lmtrain {
namespace {

namespace fs = std::filesystem;
using testing::error_of;
using testing::TemporaryFolder;

// Several writers at once, whose chunks lie between each other's.
TEST(FileChunks, OfSeveralWritersAreTheFile) {
  const TemporaryFolder folder;
  std::mt19937_64 random(1);
  std::string bytes(100'003, '\0');
  for (char& c : bytes) c = static_cast<char>(random());
  create_file_of_size(folder / "f", bytes.size());
  EXPECT_EQ(fs::file_size(folder / "f"), bytes.size());

  constexpr size_t kWriters = 3, kChunk = 1009;
  std::vector<std::vector<FileChunk>> written(kWriters);
  std::vector<std::thread> threads;
  for (size_t writer = 0; writer < kWriters; ++writer) {
    threads.emplace_back([&, writer] {
      ChunkWriter chunks(folder / "f");
      for (size_t at = writer * kChunk; at < bytes.size(); at += kWriters * kChunk)
        chunks.write(at, std::string_view(bytes).substr(at, kChunk));
      chunks.finish();
      written[writer] = chunks.chunks();
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(read_file(folder / "f"), bytes);
  std::vector<FileChunk> all;
  for (size_t writer = kWriters; writer-- > 0;)
    all.insert(all.end(), written[writer].begin(), written[writer].end());
  EXPECT_EQ(joined_sum(all, bytes.size(), folder / "f"), sum_file(folder / "f"));
}

TEST(FileChunks, WhatFollowsWithoutAGapIsOneChunk) {
  const TemporaryFolder folder;
  create_file_of_size(folder / "f", 20);
  ChunkWriter writer(folder / "f");
  writer.write(2, "ab");
  writer.write(4, "cd");
  writer.write(10, "e");
  writer.finish();
  ASSERT_EQ(writer.chunks().size(), 2U);
  EXPECT_EQ(writer.chunks()[0].offset, 2U);
  EXPECT_EQ(writer.chunks()[0].sum.size, 4U);
  EXPECT_EQ(writer.chunks()[1].offset, 10U);
}

TEST(FileChunks, AGapAnOverlapOrAnotherSizeIsNoFile) {
  const std::vector<FileChunk> whole = {{0, {4, 1}}, {4, {0, 0}}, {4, {6, 2}}};
  EXPECT_EQ(joined_sum(whole, 10, "f").size, 10U);
  EXPECT_EQ(joined_sum({}, 0, "f"), FileSum());
  const std::vector<std::vector<FileChunk>> wrong = {{{0, {4, 1}}, {5, {5, 2}}},
                                                     {{0, {4, 1}}, {3, {7, 2}}},
                                                     {{0, {4, 1}}, {0, {4, 1}}},
                                                     {{0, {4, 1}}},
                                                     {{1, {9, 1}}},
                                                     {{0, {11, 1}}}};
  for (const std::vector<FileChunk>& chunks : wrong) {
    const std::string message =
        error_of(ErrorKind::kInternal, [&] { joined_sum(chunks, 10, "the file"); });
    EXPECT_NE(message.find("the file"), std::string::npos) << message;
  }
}

// An attempt whose folder was removed leaves nothing behind.
TEST(FileChunks, AFileThatIsNotThereIsNotMade) {
  const TemporaryFolder folder;
  error_of(ErrorKind::kIo, [&] { ChunkWriter(folder / "f"); });
  EXPECT_FALSE(fs::exists(folder / "f"));
}

TEST(FileChunks, ADiskThatIsFullIsAnError) {
  ChunkWriter writer("/dev/full");
  const std::string message = error_of(ErrorKind::kIo, [&] { writer.write(0, "bytes"); });
  EXPECT_NE(message.find("/dev/full"), std::string::npos) << message;
  EXPECT_TRUE(writer.chunks().empty());
}

using testing::TemporaryFolder;

TEST(JointFile, HoldsWhatEachHasWritten) {
  const TemporaryFolder folder;
  create_joint_file(folder / "f", 3);
  EXPECT_TRUE(write_in_joint_file(folder / "f", 2, 3));
  EXPECT_TRUE(write_in_joint_file(folder / "f", 0, 3));
  EXPECT_TRUE(holds_writes(folder / "f", {0, 2}, 3));
  EXPECT_FALSE(holds_writes(folder / "f", {0, 1, 2}, 3));
  EXPECT_TRUE(write_in_joint_file(folder / "f", 1, 3));
  EXPECT_TRUE(holds_writes(folder / "f", {0, 1, 2}, 3));
}

TEST(JointFile, IsNotMadeByThoseWhoDoNotSeeIt) {
  const TemporaryFolder folder;
  EXPECT_FALSE(write_in_joint_file(folder / "f", 1, 2));
  EXPECT_FALSE(std::filesystem::exists(folder / "f"));
}

// A machine writes the page around a part, as it knows it: the others' parts are lost.
TEST(JointFile, ShowsAPageThatWasWrittenWhole) {
  const TemporaryFolder folder;
  create_joint_file(folder / "f", 2);
  const std::string before = read_file(folder / "f");
  for (const int rank : {0, 1}) write_in_joint_file(folder / "f", rank, 2);
  ASSERT_TRUE(holds_writes(folder / "f", {0, 1}, 2));
  overwrite_file(folder / "f", 4096, std::string_view(before).substr(4096, 4096));
  EXPECT_FALSE(holds_writes(folder / "f", {0, 1}, 2));
}

}  // namespace

}  // namespace lmtrain
