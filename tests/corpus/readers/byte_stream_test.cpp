#include "corpus/readers/byte_stream.h"

#include <gtest/gtest.h>

#include "base/text.h"
#include "corpus/folder.h"
#include "corpus/readers/arrow_files.h"
#include "corpus/readers/documents.h"

namespace lmtrain {
namespace {

const Compression kCompressions[] = {Compression::kGzip, Compression::kZstd, Compression::kBzip2};
const char* const kExtensions[] = {".gz", ".zst", ".bz2"};

TEST(CompressedFiles, AnyNumberOfMembersReadsLikeTheWhole) {
  const Folder folder;
  std::string text;
  for (int i = 0; i < 40000; ++i) text += str("line ", i * i, '\n');
  for (size_t i = 0; i < 3; ++i) {
    const auto pack = [&](std::string_view bytes) {
      return testing::compressed(bytes, kCompressions[i]);
    };
    const std::string name = str("a.txt", kExtensions[i]);
    EXPECT_EQ(read(folder.write(name, pack(text))).texts, Texts({text}));
    const std::string members = pack(std::string_view(text).substr(0, 1000)) + pack("") +
                                pack(std::string_view(text).substr(1000, 200'000)) +
                                pack(std::string_view(text).substr(201'000)) + pack("");
    EXPECT_EQ(read(folder.write(name, members)).texts, Texts({text}));
    EXPECT_EQ(read(folder / name, DataFormat::kLines).texts.size(), 40000U);
    EXPECT_EQ(read(folder.write(str("e", kExtensions[i]), pack(""))).texts, Texts({""}));
  }
}

TEST(CompressedFiles, CutOrChangedAnywhereIsAnError) {
  const Folder folder;
  std::string text;
  for (int i = 0; i < 40; ++i) text += str("{\"text\": \"line ", i * i * i, "\"}\n");
  for (size_t i = 0; i < 3; ++i) {
    const std::string whole = testing::compressed(text, kCompressions[i]);
    const std::string name = str("a.jsonl", kExtensions[i]);
    for (size_t size = 0; size < whole.size(); ++size) {
      const std::string message = problem(folder.write(name, whole.substr(0, size)));
      expect_contains(message, name);
      expect_contains(message, "damaged or cut short at byte ");
    }
    for (const char* tail : {"x", "garbage", "{\"text\": \"not compressed\"}\n"})
      expect_contains(problem(folder.write(name, whole + tail)), name);
    // A flip is noticed, or, where nothing checks it, still no crash.
    for (size_t offset = 0; offset < whole.size(); ++offset) {
      std::string damaged = whole;
      damaged[offset] = static_cast<char>(damaged[offset] ^ (1 << (offset % 8)));
      folder.write(name, damaged);
      try {
        read(folder / name);
      } catch (const Error& error) {
        EXPECT_EQ(error.kind(), ErrorKind::kData);
      }
    }
  }
}

// A file made by "zstd --long=28" is not damaged.
TEST(CompressedFiles, AZstdWindowThatIsTooLargeIsSaid) {
  const Folder folder;
  // Magic, a header of one byte, the window of 2^28 bytes, and one last block "hi\n" as it is.
  const std::string frame("\x28\xB5\x2F\xFD\x00\x90\x19\x00\x00hi\n", 12);
  const std::string message = problem(folder.write("a.txt.zst", frame));
  expect_contains(message, "a window of more than 128 MiB");
  expect_contains(message, "zstd -d --long=31");
}

TEST(CompressedFiles, FilesOfAnotherKindAreRefused) {
  const Folder folder;
  for (const char* extension : kExtensions)
    expect_contains(problem(folder.write(str("plain.txt", extension), "just text\n")), "plain.txt");
}

}  // namespace
}  // namespace lmtrain
