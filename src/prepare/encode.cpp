#include "prepare/encode.h"

#include <algorithm>
#include <memory>
#include <new>

#include "base/hash.h"
#include "base/ordered_pool.h"
#include "base/text.h"

namespace lmtrain {
namespace {

// A document, or a part of one, in a batch.
struct Item {
  size_t end = 0;  // in the text of the batch
  DocumentLocation location;
  // A document that is cut is decided before: each part has a side, and the last one the hash of
  // the document.
  std::optional<bool> held_out;
  std::optional<Hash128> whole;
};
// Documents handed to a thread together, so that small ones do not pay for a hand-over each.
struct DocumentBatch {
  std::string text;
  std::vector<Item> items;
};
constexpr size_t kBatchBytes = size_t{1} << 18;
constexpr size_t kBatchesPerThread = 4;

std::vector<EncodedDocument> encode_batch(const DocumentEncoder& encoder, const Corpus& corpus,
                                          const HoldOut& held_out, const DocumentBatch& batch) {
  std::vector<EncodedDocument> documents;
  documents.reserve(batch.items.size());
  size_t begin = 0;
  for (const Item& item : batch.items) {
    const std::string_view text = std::string_view(batch.text).substr(begin, item.end - begin);
    const Hash128 hash = hash128(text);
    EncodedDocument document{
        encoder.tokenizer.encode_document(text, encoder.add_bos, encoder.add_eos),
        hash,
        text.size(),
        item.location,
        false,
        item.whole};
    if (item.held_out) {
      document.held_out = *item.held_out;
    } else {
      document.held_out =
          held_out.holds_out(corpus.files[item.location.file].source, text_hash(hash));
      document.whole = hash;
    }
    documents.push_back(std::move(document));
    begin = item.end;
  }
  return documents;
}

// One pass over the documents of a corpus: they are collected into batches, which threads encode
// and which come back in order.
class EncodingPass {
 public:
  using Sink = std::function<void(const EncodedDocument&)>;

  EncodingPass(const DocumentEncoder& encoder, const Corpus& corpus, const HoldOut& held_out,
               const Sink& sink)
      : encoder_(encoder),
        corpus_(corpus),
        held_out_(held_out),
        sink_(sink),
        pool_(num_threads(encoder), kBatchesPerThread * static_cast<size_t>(num_threads(encoder))) {
  }

  // Adds a document, or the parts into which it is cut.
  void add(std::string_view text, const DocumentLocation& location) {
    const int32_t source = corpus_.files[location.file].source;
    if (held_out_.rule_of(source).block == 0) {
      add(text, Item{0, location, {}, {}});
      return;
    }
    const Hash128 hash = hash128(text);
    const std::vector<TextPart> parts = cut_document(held_out_, source, text, hash);
    for (size_t i = 0; i < parts.size(); ++i) {
      const bool is_last = i + 1 == parts.size();
      add(parts[i].text,
          Item{0, location, parts[i].held_out, is_last ? std::optional(hash) : std::nullopt});
    }
  }

  // Encodes what has been added and not been encoded yet.
  void finish() {
    submit();
    while (!pool_.empty()) drain();
  }

  int64_t documents() const { return documents_; }
  uint64_t bytes() const { return bytes_; }

 private:
  static int num_threads(const DocumentEncoder& encoder) {
    return std::max(encoder.num_threads, 1);
  }

  void add(std::string_view text, Item item) {
    batch_->text += text;
    item.end = batch_->text.size();
    batch_->items.push_back(item);
    if (batch_->text.size() + batch_->items.size() >= kBatchBytes) submit();
  }

  // Hands the batch to a thread.
  void submit() {
    if (pool_.full()) drain();
    pool_.push([this, full = std::move(batch_)] {
      try {
        return encode_batch(encoder_, corpus_, held_out_, *full);
      } catch (const std::bad_alloc&) {
        fail_out_of_memory(corpus_.files[full->items.front().location.file].path);
      }
    });
    batch_ = std::make_shared<DocumentBatch>();
  }

  // Gives the documents of the oldest batch to the sink.
  void drain() {
    for (const EncodedDocument& document : pool_.pop()) {
      sink_(document);
      if (document.whole) ++documents_;
      bytes_ += document.bytes;
    }
  }

  const DocumentEncoder& encoder_;
  const Corpus& corpus_;
  const HoldOut& held_out_;
  const Sink& sink_;
  std::shared_ptr<DocumentBatch> batch_ = std::make_shared<DocumentBatch>();
  int64_t documents_ = 0;
  uint64_t bytes_ = 0;
  OrderedPool<std::vector<EncodedDocument>> pool_;  // its threads end first
};

}  // namespace

NoDocuments DocumentEncoder::encode(const Corpus& corpus, const HoldOut& held_out,
                                    const std::string& action,
                                    const std::function<void(const EncodedDocument&)>& sink,
                                    const DocumentLocation& from) const {
  tokenizer.require_special_ids(add_bos, add_eos);
  ProgressBar progress(action, corpus.total_bytes());
  EncodingPass pass(*this, corpus, held_out, sink);
  NoDocuments skipped = corpus.for_each(
      progress,
      [&](std::string_view text, const DocumentLocation& location) { pass.add(text, location); },
      from);
  pass.finish();
  progress.finish(str(counted(pass.documents(), "document"), ", ", format_bytes(pass.bytes())));
  return skipped;
}

}  // namespace lmtrain
