#include "prepare/encode.h"

#include <new>

#include "base/hash.h"
#include "base/text.h"

namespace lmtrain {
namespace {

// A document, or a part of one.
struct DocumentPart {
  std::string_view text;
  DocumentLocation location;
  bool held_out = false;
  Hash128 hash;                  // as in EncodedDocument
  std::optional<Hash128> whole;  // as in EncodedDocument
};
// The encoded documents of a batch, or of a part of a batch.
struct Encoded {
  BatchPointer batch;
  bool is_first_part;
  std::vector<EncodedDocument> documents;
};

// A batch with more text holds a document that several threads may share, where it is cut.
constexpr size_t kSharedBatch = 4 * DocumentBatches::kBatchBytes;

// One pass over the documents of a corpus. Threads cut and encode them, and the results come back
// in order.
class EncodingPass {
 public:
  using Sink = std::function<void(const EncodedDocument&)>;

  EncodingPass(const DocumentEncoder& encoder, const Corpus& corpus, const HoldOut& held_out,
               const Sink& sink)
      : encoder_(encoder),
        corpus_(corpus),
        held_out_(held_out),
        sink_(sink),
        work_(encoder.num_threads, [this](Encoded encoded) { take(std::move(encoded)); }) {}

  void add(const BatchPointer& batch) {
    if (batch->bytes() < kSharedBatch) {
      push(batch, batch->bytes(), true, [this, batch] {
        batch->complete(corpus_);
        return encode(cut(*batch));
      });
      return;
    }
    batch->complete(corpus_);
    bool is_first = true;
    std::vector<DocumentPart> some;
    size_t size = 0;
    const auto push_some = [&] {
      push(batch, size, is_first, [this, some] { return encode(some); });
      is_first = false;
      some.clear();
      size = 0;
    };
    for (const DocumentPart& part : cut(*batch)) {
      some.push_back(part);
      size += part.text.size();
      if (size >= DocumentBatches::kBatchBytes) push_some();
    }
    push_some();
  }

  // Encodes what has been added and not been encoded yet.
  void finish() { work_.finish(); }

  const NoDocuments& skipped() const { return skipped_; }
  int64_t documents() const { return documents_; }
  uint64_t bytes() const { return bytes_; }

 private:
  // `encode` looks at the text of the batch, which it keeps alive.
  template <class Encode>
  void push(const BatchPointer& batch, size_t bytes, bool is_first_part, const Encode& encode) {
    work_.push(bytes, [this, batch, is_first_part, encode]() -> Encoded {
      try {
        return {batch, is_first_part, encode()};
      } catch (const std::bad_alloc&) {
        fail_out_of_memory(corpus_.files[batch->file()].path);
      }
    });
  }

  // Only held-out text is ordered by its hash.
  static Hash128 part_hash(const TextPart& part) {
    return part.held_out ? hash128(part.text) : Hash128();
  }

  std::vector<DocumentPart> cut(const DocumentBatch& batch) const {
    std::vector<DocumentPart> parts;
    parts.reserve(batch.size());
    for (size_t i = 0; i < batch.size(); ++i) {
      const DocumentLocation& location = batch.location(i);
      const std::string_view text = batch.document(i);
      const Hash128 hash = hash128(text);
      const std::vector<TextPart> cuts =
          cut_document(held_out_, corpus_.files[location.file].source, text, hash);
      for (const TextPart& cut : cuts) {
        DocumentPart part{cut.text, location, cut.held_out, hash, std::nullopt};
        if (cut.text.size() != text.size()) part.hash = part_hash(cut);
        parts.push_back(part);
      }
      parts.back().whole = hash;
    }
    return parts;
  }

  std::vector<EncodedDocument> encode(const std::vector<DocumentPart>& parts) const {
    std::vector<EncodedDocument> documents;
    documents.reserve(parts.size());
    for (const DocumentPart& part : parts) {
      documents.push_back(
          {encoder_.tokenizer.encode_document(part.text, encoder_.add_bos, encoder_.add_eos),
           part.hash, part.text.size(), part.location, part.held_out, part.whole});
    }
    return documents;
  }

  void take(Encoded encoded) {
    if (encoded.is_first_part) {
      position_ = positions_.next(*encoded.batch);
      skipped_ += encoded.batch->skipped_in_lines();
      for (const DocumentBatch::FileEnd& end : encoded.batch->file_ends()) skipped_ += end.skipped;
    }
    for (EncodedDocument& document : encoded.documents) {
      document.location.position += position_;
      sink_(document);
      if (document.whole) ++documents_;
      bytes_ += document.bytes;
    }
  }

  const DocumentEncoder& encoder_;
  const Corpus& corpus_;
  const HoldOut& held_out_;
  const Sink& sink_;
  PositionCounter positions_;
  int64_t position_ = 0;  // before the documents of the batch
  NoDocuments skipped_;
  int64_t documents_ = 0;
  uint64_t bytes_ = 0;
  BatchWork<Encoded> work_;  // its threads end first
};

}  // namespace

NoDocuments DocumentEncoder::encode(DocumentBatches& documents, const HoldOut& held_out,
                                    const std::string& action,
                                    const std::function<void(const EncodedDocument&)>& sink,
                                    const DocumentLocation& from) const {
  tokenizer.require_special_ids(add_bos, add_eos);
  const Corpus& corpus = documents.corpus();
  ProgressBar progress(action, corpus.total_bytes());
  EncodingPass pass(*this, corpus, held_out, sink);
  documents.for_each(
      progress, [&](const BatchPointer& batch) { pass.add(batch); }, from);
  pass.finish();
  progress.finish(str(counted(pass.documents(), "document"), ", ", format_bytes(pass.bytes())));
  return pass.skipped();
}

}  // namespace lmtrain
