#include "text/document_batches.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "base/error.h"
#include "base/text.h"
#include "prepare/folder.h"
#include "text/sources.h"

namespace lmtrain {
namespace {

using Documents = std::vector<std::pair<std::pair<size_t, int64_t>, std::string>>;
constexpr uint64_t kMuch = uint64_t{1} << 30;

Corpus corpus_of(const Folder& folder) {
  Corpus corpus{list_source_files({{folder.str(), 1.0}}), DataFormat::kAuto, "text"};
  decide_formats(corpus.files, corpus.format, corpus.text_field, "/data/train");
  return corpus;
}

Documents documents_of(DocumentBatches& batches) {
  Documents documents;
  ProgressBar progress("reading", batches.corpus().total_bytes());
  batches.for_each_document(progress, [&](std::string_view text, const DocumentLocation& location) {
    documents.push_back({{location.file, location.position}, std::string(text)});
  });
  return documents;
}

// From a location on, by threads.
Documents documents_from(DocumentBatches& batches, const DocumentLocation& from) {
  Documents documents;
  PositionCounter positions;
  BatchWork<BatchPointer> work(3, [&](const BatchPointer& batch) {
    const int64_t before = positions.next(*batch);
    for (size_t i = 0; i < batch->size(); ++i) {
      const DocumentLocation& location = batch->location(i);
      documents.push_back(
          {{location.file, before + location.position}, std::string(batch->document(i))});
    }
  });
  ProgressBar progress("reading", batches.corpus().total_bytes());
  batches.for_each(
      progress,
      [&](const BatchPointer& batch) {
        work.push(batch->bytes(), [&, batch] {
          batch->complete(batches.corpus());
          return batch;
        });
      },
      from);
  work.finish();
  return documents;
}

// Reads file by file, without batches.
NoDocuments read_files(const Corpus& corpus, const DocumentLocation& from,
                       const Corpus::Visit& visit) {
  NoDocuments skipped;
  ProgressBar progress("reading", corpus.total_bytes());
  for (size_t file = from.file; file < corpus.files.size(); ++file)
    skipped += corpus.read_file(file, file == from.file ? from.position : 0, progress, visit);
  return skipped;
}

Documents expected_of(const Corpus& corpus, const DocumentLocation& from = {}) {
  Documents documents;
  read_files(corpus, from, [&](std::string_view text, const DocumentLocation& location) {
    documents.push_back({{location.file, location.position}, std::string(text)});
  });
  return documents;
}

// Files of several formats, one of them of many batches.
void write_files(const Folder& folder) {
  std::string lines;
  for (int i = 0; i < 9000; ++i) {
    lines +=
        str("{\"text\": \"", i, "\\n", std::string(static_cast<size_t>(i % 300), 'a'), "\"}\n");
    if (i % 100 == 0) lines += " \r\n{\"text\": null}\n";
  }
  folder.write("a.jsonl", lines);
  folder.write("b.jsonl", "");
  folder.write("c.txt", "a text\nof lines");
  folder.write("d.jsonl", "\xEF\xBB\xBF{\"text\": \"marked\"}\r\n\n{\"text\": \"\\u00e9\"}");
  folder.write("e.txt", std::string(700'000, 'e'));
}

TEST(DocumentBatches, GiveTheDocumentsOfTheReaders) {
  const Folder folder;
  write_files(folder);
  const Corpus corpus = corpus_of(folder);
  const Documents expected = expected_of(corpus);
  ASSERT_EQ(expected.size(), 9004U);
  for (const uint64_t kept : {uint64_t{0}, kMuch}) {
    DocumentBatches batches(corpus, kept);
    for (int pass = 0; pass < 2; ++pass) {
      EXPECT_EQ(documents_of(batches), expected);
      EXPECT_EQ(documents_from(batches, {}), expected);
    }
  }
}

TEST(DocumentBatches, BeginAtAnyDocument) {
  const Folder folder;
  write_files(folder);
  const Corpus corpus = corpus_of(folder);
  DocumentBatches batches(corpus, kMuch);
  for (const DocumentLocation& from :
       {DocumentLocation{0, 5000}, {0, 9000}, {1, 0}, {2, 0}, {3, 1}, {4, 1}, {5, 0}}) {
    EXPECT_EQ(documents_from(batches, from), expected_of(corpus, from));
  }
}

TEST(DocumentBatches, ReadASmallCorpusOnce) {
  const Folder folder;
  write_files(folder);
  const Corpus corpus = corpus_of(folder);
  DocumentBatches kept(corpus, kMuch);
  DocumentBatches too_large(corpus, 100'000);
  const Documents expected = documents_of(kept);
  EXPECT_EQ(documents_of(too_large), expected);
  for (const SourceFile& file : corpus.files) std::filesystem::remove(file.path);
  EXPECT_EQ(documents_of(kept), expected);
  EXPECT_EQ(documents_from(kept, {}), expected);
  EXPECT_THROW(documents_of(too_large), Error);
}

TEST(DocumentBatches, LeaveOutFilesThatAreNotWanted) {
  const Folder folder;
  write_files(folder);
  const Corpus corpus = corpus_of(folder);
  DocumentBatches batches(corpus);
  std::vector<size_t> files;
  ProgressBar progress("reading", corpus.total_bytes());
  batches.for_each(
      progress,
      [&](const BatchPointer& batch) {
        for (size_t i = 0; i < batch->size(); ++i) files.push_back(batch->location(i).file);
      },
      {}, [](const SourceFile& file) { return file.format == "text"; });
  EXPECT_EQ(files, std::vector<size_t>({2, 4}));
}

TEST(DocumentBatches, CountWhatIsNoDocument) {
  const Folder folder;
  write_files(folder);
  folder.write("f.jsonl", "{\"text\": \"good\"}\n{\"text\": 7}\n");
  Corpus corpus = corpus_of(folder);
  corpus.on_bad_line = OnBadLine::kSkip;
  DocumentBatches batches(corpus);
  NoDocuments skipped;
  ProgressBar progress("reading", corpus.total_bytes());
  batches.for_each(progress, [&](const BatchPointer& batch) {
    batch->complete(corpus);
    skipped += batch->skipped_in_lines();
    for (const DocumentBatch::FileEnd& end : batch->file_ends()) skipped += end.skipped;
  });
  EXPECT_EQ(skipped, read_files(corpus, {}, [](std::string_view, const DocumentLocation&) {}));
  EXPECT_EQ(skipped.bad_lines, 1);
  EXPECT_EQ(skipped.blank_lines, 91);
}

TEST(DocumentBatches, NameTheLineThatIsBad) {
  const Folder folder;
  write_files(folder);
  folder.write("a.jsonl", std::string(300'000, '\n') + "{\"text\": 7}\n");
  const Corpus corpus = corpus_of(folder);
  DocumentBatches batches(corpus);
  try {
    documents_from(batches, {});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kData);
    EXPECT_NE(std::string(error.what()).find("a.jsonl:300001: "), std::string::npos);
  }
}

}  // namespace
}  // namespace lmtrain
