#include "base/buffered_file.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/support.h"

namespace lmtrain {
namespace {

using testing::error_of;
using testing::TemporaryFolder;

TEST(BufferedFile, ManySmallWrites) {
  const TemporaryFolder folder;
  std::string expected;
  BufferedFile file(folder / "f");
  for (int i = 0; i < 300'000; ++i) {
    const std::string bytes(static_cast<size_t>(i % 9), static_cast<char>('a' + i % 26));
    file.write(bytes);
    expected += bytes;
  }
  EXPECT_EQ(file.size(), expected.size());
  file.finish();
  EXPECT_EQ(read_file(folder / "f"), expected);
}

TEST(BufferedFile, GoesOnFromWhatWasSynced) {
  const TemporaryFolder folder;
  FileSum kept;
  {
    BufferedFile file(folder / "f");
    file.write("kept ");
    file.write("bytes");
    kept = file.sync();
    EXPECT_EQ(kept.size, 10U);
    file.write(std::string(size_t{2} << 20, 'x'));  // written, and lost in the crash
  }
  EXPECT_GT(sum_file(folder / "f").size, kept.size);
  EXPECT_EQ(sum_file(folder / "f", kept.size), kept);
  BufferedFile file(folder / "f", kept);
  file.write(" and more");
  const FileSum synced = file.sync();
  EXPECT_EQ(synced, sum_file(folder / "f"));
  file.finish();
  EXPECT_EQ(read_file(folder / "f"), "kept bytes and more");
}

TEST(BufferedFile, WhatIsNotThereIsADataError) {
  const TemporaryFolder folder;
  FileSum kept;
  {
    BufferedFile file(folder / "f");
    file.write("kept bytes");
    kept = file.sync();
  }
  overwrite_file(folder / "f", 3, "T");
  error_of(ErrorKind::kData, [&] { BufferedFile(folder / "f", kept); });
  EXPECT_EQ(read_file(folder / "f"), "kepT bytes") << "left alone";
  overwrite_file(folder / "f", 3, "t");
  truncate_file(folder / "f", 9);
  error_of(ErrorKind::kData, [&] { BufferedFile(folder / "f", kept); });
  error_of(ErrorKind::kIo, [&] { BufferedFile(folder / "none", kept); });
}

}  // namespace
}  // namespace lmtrain
