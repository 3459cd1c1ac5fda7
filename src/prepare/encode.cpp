#include "prepare/encode.h"

#include <new>

#include "base/hash.h"
#include "base/text.h"

namespace lmtrain {
namespace {

// A document, or a part of one.
struct Piece {
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
    std::vector<Piece> some;
    size_t size = 0;
    const auto push_some = [&] {
      push(batch, size, is_first, [this, some] { return encode(some); });
      is_first = false;
      some.clear();
      size = 0;
    };
    for (const Piece& piece : cut(*batch)) {
      some.push_back(piece);
      size += piece.text.size();
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

  std::vector<Piece> cut(const DocumentBatch& batch) const {
    std::vector<Piece> pieces;
    pieces.reserve(batch.size());
    for (size_t i = 0; i < batch.size(); ++i) {
      const DocumentLocation& location = batch.location(i);
      const std::string_view text = batch.document(i);
      const Hash128 hash = hash128(text);
      const std::vector<TextPart> parts =
          cut_document(held_out_, corpus_.files[location.file].source, text, hash);
      for (const TextPart& part : parts) {
        Piece piece{part.text, location, part.held_out, hash, std::nullopt};
        if (part.text.size() != text.size()) piece.hash = part_hash(part);
        pieces.push_back(piece);
      }
      pieces.back().whole = hash;
    }
    return pieces;
  }

  std::vector<EncodedDocument> encode(const std::vector<Piece>& pieces) const {
    std::vector<EncodedDocument> documents;
    documents.reserve(pieces.size());
    for (const Piece& piece : pieces) {
      documents.push_back(
          {encoder_.tokenizer.encode_document(piece.text, encoder_.add_bos, encoder_.add_eos),
           piece.hash, piece.text.size(), piece.location, piece.held_out, piece.whole});
    }
    return documents;
  }

  void take(Encoded encoded) {
    if (encoded.is_first_part) {
      position_ = positions_.next(*encoded.batch);
      skipped_ += encoded.batch->skipped();
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
