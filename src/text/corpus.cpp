#include "text/corpus.h"

#include <memory>
#include <new>

#include "base/error.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/text.h"
#include "base/utf8.h"
#include "text/document_batches.h"
#include "text/readers.h"

namespace lmtrain {

void fail_out_of_memory(const std::filesystem::path& path) {
  throw Error(
      ErrorKind::kMemory,
      str("out of memory at a document of ", shown(path),
          "; split it, or lower data.max_document, so that every document that is too large "
          "is named"));
}

void rethrow_of(const SourceFile& file) {
  try {
    throw;
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::kData) require_unchanged(file);
    throw;
  } catch (const std::bad_alloc&) {
    fail_out_of_memory(file.path);
  }
}

uint64_t Corpus::total_bytes() const {
  uint64_t total = 0;
  for (const SourceFile& file : files) total += file.size;
  return total;
}

NoDocuments Corpus::read_file(size_t index, int64_t first, ProgressBar& progress,
                              const Visit& visit) const {
  const SourceFile& file = files[index];
  uint64_t counted = 0;
  const std::unique_ptr<DocumentReader> reader = open_documents(
      file.path, file.format, text_field, first, max_document, on_bad_line == OnBadLine::kSkip);
  try {
    for (Document document; reader->next(document);) {
      if (document.position >= first) visit(document.text, {index, document.position});
      progress.reach(reader->bytes_read(), file.size, counted);
    }
  } catch (...) {
    rethrow_of(file);
  }
  require_unchanged(file);
  progress.reach(file.size, file.size, counted);
  return reader->skipped();
}

std::string describe_bad_lines(const NoDocuments& skipped) {
  std::string text =
      str(skipped.bad_lines, " of ", counted(skipped.json_lines, "line"),
          " of JSON lines skipped as data.on_bad_line says: ", join(skipped.first_bad_lines, ", "));
  const int64_t more = skipped.bad_lines - std::ssize(skipped.first_bad_lines);
  return more > 0 ? str(text, " and ", more, " more") : text;
}

void require_few_bad_lines(const NoDocuments& skipped, const std::string& pointer) {
  constexpr int64_t kOneOf = 1000;
  if (kOneOf * skipped.bad_lines <= skipped.json_lines) return;
  throw Error(ErrorKind::kData,
              str(pointer, ": ", describe_bad_lines(skipped), "; this is ",
                  printed("%.2g", 100.0 * static_cast<double>(skipped.bad_lines) /
                                      static_cast<double>(skipped.json_lines)),
                  " % of the lines, and 0.1 % may be skipped, here ", skipped.json_lines / kOneOf,
                  skipped.json_lines < kOneOf ? " (none of fewer than 1000 lines)" : "",
                  ": mend the files, or write them anew"));
}

std::string describe_oddities(const CorpusCounts& counts) {
  std::string text;
  if (counts.empty_documents > 0)
    text += str(", ", counted(counts.empty_documents, "empty document"));
  if (counts.skipped.blank_lines > 0)
    text += str(", ", counts.skipped.blank_lines, " blank lines skipped");
  if (counts.skipped.nulls > 0) text += str(", ", counts.skipped.nulls, " nulls skipped");
  if (counts.skipped.empty_rows > 0)
    text += str(", ", counts.skipped.empty_rows, " rows without ids skipped");
  if (counts.skipped.padding > 0)
    text += str(", ", counts.skipped.padding,
                " positions of padding left out (attention_mask 0, labels -100)");
  if (counts.nul_documents > 0)
    text += str(", ", counted(counts.nul_documents, "document"), " with NUL bytes");
  return text;
}

void warn_of_text(const CorpusCounts& counts, const std::string& pointer) {
  if (counts.invalid_documents > 0) {
    log_warning(str(pointer, ": ", counts.invalid_documents, " of ", counts.documents,
                    " documents are not valid UTF-8; each invalid byte is read as U+FFFD"));
  }
  if (counts.skipped.bad_lines > 0)
    log_warning(str(pointer, ": ", describe_bad_lines(counts.skipped)));
}

uint64_t Sample::bucket(uint64_t hash) {
  return hash_combine(0x53616D706C65, hash) >> (64 - kBits);
}

void Sample::observe(uint64_t hash, uint64_t bytes) { bytes_[bucket(hash)] += bytes; }

void Sample::choose(uint64_t budget) {
  uint64_t total = 0;
  for (num_buckets_ = 0; num_buckets_ < bytes_.size() && total < budget; ++num_buckets_)
    total += bytes_[num_buckets_];
}

bool Sample::selects(uint64_t hash) const { return bucket(hash) < num_buckets_; }

namespace {

// The facts of one document that a scan counts.
struct ScannedDocument {
  Hash128 hash;
  uint64_t bytes;
  bool has_nul;
  bool is_invalid;
};
struct ScannedBatch {
  BatchPointer batch;
  std::vector<ScannedDocument> documents;
};

ScannedBatch scan_batch(const Corpus& corpus, const BatchPointer& batch) {
  batch->complete(corpus);
  ScannedBatch scanned{batch, {}};
  scanned.documents.reserve(batch->size());
  for (size_t i = 0; i < batch->size(); ++i) {
    const std::string_view text = batch->document(i);
    scanned.documents.push_back(
        {hash128(text), text.size(), text.find('\0') != std::string_view::npos, !is_utf8(text)});
  }
  return scanned;
}

}  // namespace

void scan_corpus(
    DocumentBatches& documents, const std::string& action, int num_threads, CorpusScan& scan,
    const std::function<void(uint64_t hash, uint64_t bytes, const SourceFile& file)>& observe,
    const std::function<void()>& after_file) {
  const Corpus& corpus = documents.corpus();
  CorpusCounts& counts = scan.counts;
  Hasher content(scan.content);
  const auto add_document = [&](const ScannedDocument& document) {
    const SourceFile& file = corpus.files[scan.next_file];
    content.add(document.hash);
    ++counts.documents;
    ++counts.formats[file.format].documents;
    counts.bytes += static_cast<int64_t>(document.bytes);
    if (document.bytes == 0) ++counts.empty_documents;
    if (document.has_nul) ++counts.nul_documents;
    if (document.is_invalid) ++counts.invalid_documents;
    observe(text_hash(document.hash), document.bytes, file);
  };
  BatchWork<ScannedBatch> work(num_threads, [&](const ScannedBatch& scanned) {
    size_t next = 0;
    counts.skipped += scanned.batch->skipped_in_lines();
    for (const DocumentBatch::FileEnd& end : scanned.batch->file_ends()) {
      while (next < end.documents) add_document(scanned.documents[next++]);
      counts.skipped += end.skipped;
      ++counts.formats[corpus.files[scan.next_file].format].files;
      scan.content = content.digest();
      ++scan.next_file;
      after_file();
    }
    while (next < scanned.documents.size()) add_document(scanned.documents[next++]);
  });
  ProgressBar progress(action, corpus.total_bytes());
  documents.for_each(progress,
                     [&](const BatchPointer& batch) {
                       work.push(batch->bytes(),
                                 [&corpus, batch] { return scan_batch(corpus, batch); });
                     },
                     {scan.next_file, 0});
  work.finish();
}

}  // namespace lmtrain
