#include "base/file_pieces.h"

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

// Several writers at once, whose pieces lie between each other's.
TEST(FilePieces, OfSeveralWritersAreTheFile) {
  const TemporaryFolder folder;
  std::mt19937_64 random(1);
  std::string bytes(100'003, '\0');
  for (char& c : bytes) c = static_cast<char>(random());
  create_file_of_size(folder / "f", bytes.size());
  EXPECT_EQ(fs::file_size(folder / "f"), bytes.size());

  constexpr size_t kWriters = 3, kPiece = 1009;
  std::vector<std::vector<FilePiece>> written(kWriters);
  std::vector<std::thread> threads;
  for (size_t writer = 0; writer < kWriters; ++writer) {
    threads.emplace_back([&, writer] {
      PieceWriter pieces(folder / "f");
      for (size_t at = writer * kPiece; at < bytes.size(); at += kWriters * kPiece)
        pieces.write(at, std::string_view(bytes).substr(at, kPiece));
      pieces.finish();
      written[writer] = pieces.pieces();
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(read_file(folder / "f"), bytes);
  std::vector<FilePiece> all;
  for (size_t writer = kWriters; writer-- > 0;)
    all.insert(all.end(), written[writer].begin(), written[writer].end());
  EXPECT_EQ(joined_sum(all, bytes.size(), folder / "f"), sum_file(folder / "f"));
}

TEST(FilePieces, WhatFollowsWithoutAGapIsOnePiece) {
  const TemporaryFolder folder;
  create_file_of_size(folder / "f", 20);
  PieceWriter writer(folder / "f");
  writer.write(2, "ab");
  writer.write(4, "cd");
  writer.write(10, "e");
  writer.finish();
  ASSERT_EQ(writer.pieces().size(), 2U);
  EXPECT_EQ(writer.pieces()[0].offset, 2U);
  EXPECT_EQ(writer.pieces()[0].sum.size, 4U);
  EXPECT_EQ(writer.pieces()[1].offset, 10U);
}

TEST(FilePieces, AGapAnOverlapOrAnotherSizeIsNoFile) {
  const std::vector<FilePiece> whole = {{0, {4, 1}}, {4, {0, 0}}, {4, {6, 2}}};
  EXPECT_EQ(joined_sum(whole, 10, "f").size, 10U);
  EXPECT_EQ(joined_sum({}, 0, "f"), FileSum());
  const std::vector<std::vector<FilePiece>> wrong = {{{0, {4, 1}}, {5, {5, 2}}},
                                                     {{0, {4, 1}}, {3, {7, 2}}},
                                                     {{0, {4, 1}}, {0, {4, 1}}},
                                                     {{0, {4, 1}}},
                                                     {{1, {9, 1}}},
                                                     {{0, {11, 1}}}};
  for (const std::vector<FilePiece>& pieces : wrong) {
    const std::string message =
        error_of(ErrorKind::kInternal, [&] { joined_sum(pieces, 10, "the file"); });
    EXPECT_NE(message.find("the file"), std::string::npos) << message;
  }
}

// An attempt whose folder was removed leaves nothing behind.
TEST(FilePieces, AFileThatIsNotThereIsNotMade) {
  const TemporaryFolder folder;
  error_of(ErrorKind::kIo, [&] { PieceWriter(folder / "f"); });
  EXPECT_FALSE(fs::exists(folder / "f"));
}

TEST(FilePieces, ADiskThatIsFullIsAnError) {
  PieceWriter writer("/dev/full");
  const std::string message = error_of(ErrorKind::kIo, [&] { writer.write(0, "bytes"); });
  EXPECT_NE(message.find("/dev/full"), std::string::npos) << message;
  EXPECT_TRUE(writer.pieces().empty());
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
