#include "prepare/source_runs.h"

#include <gtest/gtest.h>

#include "base/file.h"
#include "prepare/folder.h"

namespace lmtrain {
namespace {

using Paths = std::vector<std::string>;

TEST(DocumentFiles, EachDocumentHasItsFile) {
  const Folder folder;
  const std::filesystem::path table = folder.path() / "a.files";
  write_document_files(table, {{0, "/a"}, {3, "/b"}, {4, "/c\xFF"}});
  EXPECT_EQ(files_of_documents(table, {0}), Paths({"/a"}));
  EXPECT_EQ(files_of_documents(table, {1, 2}), Paths({"/a"}));
  EXPECT_EQ(files_of_documents(table, {2, 3, 4, 1000}), Paths({"/a", "/b", "/c\xEF\xBF\xBD"}));
  EXPECT_EQ(files_of_documents(table, {3}), Paths({"/b"}));
  EXPECT_EQ(files_of_documents(table, {}), Paths());
}

TEST(DocumentFiles, DamageIsTold) {
  const Folder folder;
  const std::filesystem::path table = folder.path() / "a.files";
  error_of(ErrorKind::kIo, [&] { files_of_documents(table, {0}); });
  write_document_files(table, {{0, "/a"}});
  std::string bytes = read_file(table);
  bytes[bytes.find("/a") + 1] = 'b';
  write_file_atomic(table, bytes);
  expect_contains(error_of(ErrorKind::kData, [&] { files_of_documents(table, {0}); }),
                  table.native());
}

TEST(FileTally, FilesWithoutDocumentsAndSources) {
  std::vector<SourceFile> files(6);
  for (size_t i = 0; i < files.size(); ++i) {
    files[i].path = std::string("/") + static_cast<char>('a' + i);
    files[i].source = i == 2 ? 1 : 0;
  }
  FileTally tally;  // two documents of b, one of c, three of e
  int64_t next = 0;
  for (const size_t file : {1, 1, 2, 4, 4, 4}) tally.begin_document(file, next++);
  std::vector<std::pair<int64_t, std::string>> named;
  for (const DocumentFile& file : tally.files(files, next))
    named.emplace_back(file.first_document, file.path.native());
  EXPECT_EQ(named, (std::vector<std::pair<int64_t, std::string>>{{0, "/b"}, {2, "/c"}, {3, "/e"}}));
  const std::vector<SourceRun> runs = tally.runs(files, next);
  ASSERT_EQ(runs.size(), 3U);
  EXPECT_EQ(runs[1].first_document, 2);
  EXPECT_EQ(runs[1].source, 1);
  EXPECT_EQ(runs[2].first_document, 3);
  EXPECT_EQ(runs[2].source, 0);
}

}  // namespace

}  // namespace lmtrain
