#include "base/file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <csignal>
#include <fstream>
#include <thread>
#include <utility>

#include "base/error.h"
#include "base/examine.h"
#include "base/read_file.h"
#include "base/stop.h"
#include "base/support.h"

namespace lmtrain {
namespace {

namespace fs = std::filesystem;
using testing::error_of;
using testing::TemporaryFolder;

TEST(FileWriter, WritesAndSums) {
  const TemporaryFolder folder;
  FileWriter writer(folder / "file");
  writer.write("12345");
  writer.write("6789");
  writer.write("");
  writer.finish();
  EXPECT_EQ(writer.size(), 9U);
  EXPECT_EQ(writer.crc(), 0xE3069283U);
  EXPECT_EQ(read_file(folder / "file"), "123456789");
}

TEST(FileWriter, TruncatesWhatWasThere) {
  const TemporaryFolder folder;
  write_file_atomic(folder / "file", "something long");
  FileWriter(folder / "file").finish();
  EXPECT_EQ(read_file(folder / "file"), "");
}

TEST(FileSynced, IsWrittenOrCopiedOverWhatWasThere) {
  const TemporaryFolder folder;
  const FileSum sum{9, 0xE3069283U};
  write_file_atomic(folder / "file", "something long");
  EXPECT_EQ(write_file_synced(folder / "file", "123456789"), sum);
  EXPECT_EQ(read_file(folder / "file"), "123456789");
  write_file_atomic(folder / "copy", "something long");
  EXPECT_EQ(copy_file_synced(folder / "file", folder / "copy"), sum);
  EXPECT_EQ(read_file(folder / "copy"), "123456789");
}

TEST(FileWriter, OverwritesWithinWhatWasWritten) {
  const TemporaryFolder folder;
  FileWriter writer(folder / "file");
  writer.write("____5678");
  writer.overwrite(0, "1234");
  writer.write("9");
  EXPECT_EQ(writer.size(), 9U);
  for (const uint64_t offset : {uint64_t{6}, uint64_t{10}, ~uint64_t{0}}) {
    error_of(ErrorKind::kInternal, [&] { writer.overwrite(offset, "1234"); });
  }
  writer.finish();
  EXPECT_EQ(read_file(folder / "file"), "123456789");
}

TEST(SumFile, AgreesWithWhatWasWritten) {
  const TemporaryFolder folder;
  for (const size_t size : {size_t{0}, size_t{1}, size_t{1} << 20, (size_t{3} << 20) + 17}) {
    FileWriter writer(folder / "file");
    writer.write(std::string(size, 'x'));
    writer.finish();
    EXPECT_EQ(sum_file(folder / "file"), (FileSum{size, writer.crc()}));
  }
}

TEST(ReplaceFile, LeavesNothingBesideTheFile) {
  const TemporaryFolder folder;
  for (const char* text : {"old bytes", "new"}) {
    replace_file_unsynced(folder / "file", text);
    EXPECT_EQ(read_file(folder / "file"), text);
  }
  std::filesystem::create_directories(folder / "taken/full");
  error_of(ErrorKind::kIo, [&] { replace_file_unsynced(folder / "taken", "x"); });
  error_of(ErrorKind::kIo, [&] { replace_file_unsynced(folder / "none/file", "x"); });
  EXPECT_EQ(list_folder(folder / "."), (std::vector<std::string>{"file", "taken"}));
}

TEST(MappedFile, ShowsBytesAndMoves) {
  const TemporaryFolder folder;
  write_file_atomic(folder / "file", "bytes");
  write_file_atomic(folder / "empty", "");
  MappedFile first(folder / "file");
  EXPECT_EQ(first.bytes(), "bytes");
  EXPECT_EQ(first.path(), folder / "file");
  MappedFile second(std::move(first));
  EXPECT_EQ(second.bytes(), "bytes");
  second = MappedFile(folder / "empty");
  EXPECT_TRUE(second.bytes().empty());
}

TEST(ReadFile, ReadsWhatHasNoSize) {
  EXPECT_TRUE(read_file("/proc/self/status").starts_with("Name:"));
}

TEST(ReadFile, FoldersAndMissingFilesAreErrorsWithThePath) {
  const TemporaryFolder folder;
  const auto expect_named = [&](const fs::path& path, auto&& action,
                                ErrorKind kind = ErrorKind::kIo) {
    const std::string message = error_of(kind, action);
    EXPECT_NE(message.find(path.string()), std::string::npos) << message;
  };
  for (const fs::path& path : {folder.path(), folder / "missing"}) {
    const ErrorKind kind = path == folder.path() ? ErrorKind::kData : ErrorKind::kIo;
    expect_named(
        path, [&] { read_file(path); }, kind);
    expect_named(
        path, [&] { sum_file(path); }, kind);
    expect_named(
        path, [&] { MappedFile{path}; }, kind);
    expect_named(path, [&] { truncate_file(path, 0); });
  }
  expect_named(
      folder.path(), [&] { append_file(folder.path(), "x", false); }, ErrorKind::kData);
  expect_named(
      folder.path(), [&] { FileWriter{folder.path()}; }, ErrorKind::kData);
  const fs::path beyond = folder / "missing" / "file";
  expect_named(beyond, [&] { write_file_atomic(beyond, "x"); });
  expect_named(folder / "missing", [&] { sync_directory(folder / "missing"); });
  const fs::path long_name = folder / std::string(300, 'x');
  expect_named(long_name, [&] { append_file(long_name, "x", false); });
}

// Each call must come back: a blocking one would wait for the other end of the pipe for ever.
TEST(NoFile, PipesSocketsAndDevicesAreNamedWithoutWaiting) {
  const TemporaryFolder folder;
  const fs::path pipe = folder / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  const fs::path link = folder / "endless";
  fs::create_symlink("/dev/zero", link);
  const auto expect_refused = [](const fs::path& path, auto&& action) {
    const std::string message = error_of(ErrorKind::kData, action);
    EXPECT_NE(message.find(path.string() + " is a "), std::string::npos) << message;
  };
  for (const fs::path& path : {pipe, link}) {
    expect_refused(path, [&] { read_file(path); });
    expect_refused(path, [&] { sum_file(path); });
    expect_refused(path, [&] { MappedFile{path}; });
    expect_refused(path, [&] { FileReader{path}; });
  }
  expect_refused(pipe, [&] { append_file(pipe, "x", false); });
  expect_refused(pipe, [&] { FileWriter{pipe}; });
  expect_refused(pipe, [&] { FileLock().try_acquire(pipe); });
}

TEST(ReadFile, ReadsNoMoreThanAsked) {
  const TemporaryFolder folder;
  write_file_atomic(folder / "file", "12345");
  EXPECT_EQ(read_file(folder / "file", 5), "12345");
  const std::string message = error_of(ErrorKind::kData, [&] { read_file(folder / "file", 4); });
  EXPECT_NE(message.find((folder / "file").string()), std::string::npos) << message;
  // A file of a terabyte without content takes no memory either.
  fs::resize_file(folder / "file", uintmax_t{1} << 40);
  error_of(ErrorKind::kData, [&] { read_file(folder / "file"); });
  error_of(ErrorKind::kData, [&] { read_file_or_pipe("/dev/zero", 1 << 20); });
}

TEST(ReadFileOrPipe, WaitsForThePipe) {
  const TemporaryFolder folder;
  const fs::path pipe = folder / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  std::thread writer([&] { std::ofstream(pipe) << std::string(100'000, 'x'); });
  EXPECT_EQ(read_file_or_pipe(pipe, 1 << 20), std::string(100'000, 'x'));
  writer.join();
}

TEST(ReadFileOrPipe, ASignalEndsTheWait) {
  const TemporaryFolder folder;
  const fs::path pipe = folder / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  // Without a writer, and with one that writes nothing.
  for (const bool has_writer : {false, true}) {
    EXPECT_EQ(testing::exit_code_of([&] {
                const int writer = has_writer ? ::open(pipe.c_str(), O_RDWR | O_CLOEXEC) : 0;
                if (writer < 0) return 1;
                install_signal_handlers();
                std::raise(SIGTERM);
                try {
                  read_file_or_pipe(pipe, 1 << 20);
                } catch (const StopRequested& stop) {
                  return stop.signal == SIGTERM ? 0 : 2;
                }
                return 3;
              }),
              0);
  }
}

TEST(WriteFileAtomic, ReplacesAndLeavesNothingElse) {
  const TemporaryFolder folder;
  write_file_atomic(folder / "file", "old");
  write_file_atomic(folder / "file", "new");
  EXPECT_EQ(read_file(folder / "file"), "new");
  EXPECT_EQ(std::distance(fs::directory_iterator(folder.path()), fs::directory_iterator()), 1);
}

TEST(WriteFileAtomic, WorksInTheCurrentFolder) {
  const TemporaryFolder folder;
  EXPECT_EQ(testing::exit_code_of([&] {
              fs::current_path(folder.path());
              write_file_atomic("file", "x");
              return 0;
            }),
            0);
  EXPECT_EQ(read_file(folder / "file"), "x");
}

TEST(AppendFile, CreatesAppendsAndTruncates) {
  const TemporaryFolder folder;
  append_file(folder / "file", "one\n", true);
  append_file(folder / "file", "two\n", false);
  EXPECT_EQ(read_file(folder / "file"), "one\ntwo\n");
  truncate_file(folder / "file", 4);
  EXPECT_EQ(read_file(folder / "file"), "one\n");
}

TEST(Folders, AreMadeRenamedAndRemoved) {
  const TemporaryFolder folder;
  lmtrain::create_directories(folder / "a/b/c");
  lmtrain::create_directories(folder / "a/b/c");
  write_file_atomic(folder / "a/b/c/file", "x");
  publish_rename(folder / "a/b", folder / "published");
  EXPECT_EQ(read_file(folder / "published/c/file"), "x");
  EXPECT_FALSE(fs::exists(folder / "a/b"));
  remove_tree(folder / "published");
  EXPECT_FALSE(fs::exists(folder / "published"));
  remove_tree(folder / "published");
  error_of(ErrorKind::kIo, [&] { publish_rename(folder / "missing", folder / "b"); });
  write_file_atomic(folder / "file", "x");
  error_of(ErrorKind::kIo, [&] { lmtrain::create_directories(folder / "file/b"); });
}

TEST(RemoveTree, NeverRemovesThroughALink) {
  const TemporaryFolder folder;
  lmtrain::create_directories(folder / "archive");
  write_file_atomic(folder / "archive/file", "x");
  lmtrain::create_directories(folder / "tree/deeper");
  for (const char* link : {"link", "tree/link", "tree/deeper/link"})
    fs::create_symlink(folder / "archive", folder / link);
  fs::create_symlink(folder / "archive/file", folder / "tree/file");
  fs::create_symlink(folder / "nowhere", folder / "tree/nowhere");
  remove_tree(folder / "link");
  remove_tree(folder / "tree");
  EXPECT_FALSE(fs::is_symlink(folder / "link"));
  EXPECT_FALSE(fs::exists(folder / "tree"));
  EXPECT_EQ(read_file(folder / "archive/file"), "x");
}

TEST(RequireFreeSpace, NamesBothFigures) {
  const TemporaryFolder folder;
  require_free_space(folder.path(), 1, "a test");
  const std::string message = error_of(ErrorKind::kIo, [&] {
    require_free_space(folder.path(), uint64_t{1} << 60, "saving a checkpoint");
  });
  EXPECT_NE(message.find("saving a checkpoint needs 1048576.0 TiB"), std::string::npos) << message;
  EXPECT_NE(message.find("free"), std::string::npos) << message;
  error_of(ErrorKind::kIo, [&] { require_free_space(folder / "missing", 1, "a test"); });
}

// The kernel gives such a file a page at a time, as a network file system may give any.
TEST(ReadChunks, AreWholeWhereAReadGivesLess) {
  std::vector<size_t> sizes;
  read_chunks("/proc/self/smaps", [&](std::string_view chunk) { sizes.push_back(chunk.size()); });
  ASSERT_FALSE(sizes.empty());
  EXPECT_GT(sizes[0], 8192U);
  for (size_t i = 0; i + 1 < sizes.size(); ++i) EXPECT_EQ(sizes[i], 1U << 20);
}

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
  error_of(ErrorKind::kData, [&] { BufferedFile(folder / "none", kept); });
}

TEST(ReadFully, GoesOnUntilTheEnd) {
  struct OneByteAtATime {
    std::string_view left;
    size_t read(char* out, size_t size) {
      const size_t count = std::min({size, left.size(), size_t{1}});
      left.copy(out, count);
      left.remove_prefix(count);
      return count;
    }
  } reader{"abcde"};
  std::string bytes(3, '\0');
  EXPECT_EQ(read_fully(reader, bytes.data(), 3), 3);
  EXPECT_EQ(bytes, "abc");
  EXPECT_EQ(read_fully(reader, bytes.data(), 3), 2);
  EXPECT_EQ(bytes.substr(0, 2), "de");
  EXPECT_EQ(read_fully(reader, bytes.data(), 3), 0);
}

}  // namespace

}  // namespace lmtrain
