#include "text/byte_stream.h"

#include <gtest/gtest.h>
#include <lzma.h>

#include "base/text.h"
#include "prepare/folder.h"
#include "text/arrow_files.h"
#include "text/documents.h"

namespace lmtrain {
namespace {

const Compression kCompressions[] = {Compression::kGzip, Compression::kZstd, Compression::kBzip2,
                                     Compression::kXz};
const char* const kExtensions[] = {".gz", ".zst", ".bz2", ".xz"};

TEST(CompressedFiles, AnyNumberOfMembersReadsLikeTheWhole) {
  const Folder folder;
  std::string text;
  for (int i = 0; i < 40000; ++i) text += str("line ", i * i, '\n');
  for (size_t i = 0; i < 4; ++i) {
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
  for (size_t i = 0; i < 4; ++i) {
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

// "xz --lzma2=dict=1GiB": magic, flags of CRC32, and a block header that asks for 1 GiB.
TEST(CompressedFiles, AnXzDictionaryThatIsTooLargeIsSaid) {
  const Folder folder;
  std::string header("\x02\x00\x21\x01\x24\x00\x00\x00", 8);
  const uint32_t sum = lzma_crc32(reinterpret_cast<const uint8_t*>(header.data()), 8, 0);
  for (int i = 0; i < 4; ++i) header += static_cast<char>(sum >> (8 * i));
  const std::string magic(
      "\xFD"
      "7zXZ\0\0\x01\x69\x22\xDE\x36",
      12);
  const std::string message = problem(folder.write("a.txt.xz", magic + header + "\x01"));
  expect_contains(message, "needs more than 256 MiB");
  expect_contains(message, "xz -dc FILE");
}

TEST(CompressedFiles, FilesOfAnotherKindAreRefused) {
  const Folder folder;
  for (const char* extension : kExtensions)
    expect_contains(problem(folder.write(str("plain.txt", extension), "just text\n")), "plain.txt");
}

TEST(CompressedFiles, AZstdDictionaryIsNamed) {
  const Folder folder;
  // Magic, a header that names the dictionary 42 (in 1, 2 or 4 bytes), the size of the text, and
  // one last block "hi\n".
  const std::string magic = "\x28\xB5\x2F\xFD";
  const std::string block("\x03\x19\x00\x00hi\n", 7);
  for (const std::string& header :
       {std::string("\x21\x2A"), std::string("\x22\x2A\0", 3), std::string("\x23\x2A\0\0\0", 5)}) {
    const std::string message = problem(folder.write("a.txt.zst", magic + header + block));
    expect_contains(message, "a zstd dictionary (dictionary ID 42)");
    expect_contains(message, "zstd -d -D");
    EXPECT_EQ(message.find("damaged"), std::string::npos);
  }
}

// As a tape or a block device leaves it; gzip passes over it too.
TEST(CompressedFiles, ZerosBehindAGzipMemberArePassedOver) {
  const Folder folder;
  const std::string member = testing::compressed("some text\n", Compression::kGzip);
  for (const size_t zeros : {1U, 511U, 1U << 20U}) {
    const std::string padding(zeros, '\0');
    EXPECT_EQ(read(folder.write("a.txt.gz", member + padding)).texts, Texts({"some text\n"}));
    EXPECT_EQ(read(folder.write("a.txt.gz", member + member + padding)).texts,
              Texts({"some text\nsome text\n"}));
    expect_contains(problem(folder.write("a.txt.gz", member + padding + "more")), "zeros follow");
    expect_contains(problem(folder.write("a.txt.gz", member + padding + member)), "zeros follow");
  }
  expect_contains(problem(folder.write("a.txt.gz", std::string(512, '\0'))), "damaged");
  const std::string stream = testing::compressed("some text\n", Compression::kXz);
  EXPECT_EQ(read(folder.write("a.txt.xz", stream + std::string(8, '\0'))).texts,
            Texts({"some text\n"}));
  const std::string frame = testing::compressed("some text\n", Compression::kZstd);
  expect_contains(problem(folder.write("a.txt.zst", frame + std::string(8, '\0'))), "damaged");
}

}  // namespace
}  // namespace lmtrain
