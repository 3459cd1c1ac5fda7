#include "corpus/shards/encode.h"

#include <algorithm>
#include <memory>
#include <new>

#include "base/text.h"
#include "corpus/readers/text_hash.h"
#include "corpus/shards/block_exchange.h"
#include "corpus/shards/ordered_pool.h"

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
struct EncodedBatch {
  std::vector<EncodedDocument> documents;
  // For several processes:
  int64_t number = 0;
  Hash128 text;  // hash of the documents' hashes
  bool is_mine = true;
};
constexpr size_t kBatchBytes = size_t{1} << 18;
constexpr size_t kBatchesPerThread = 4;
constexpr size_t kMostBatches = 4096;  // a GiB of text, where other machines encode too

// Without `with_ids` another process finds the ids.
std::vector<EncodedDocument> encode_batch(const DocumentEncoder& encoder, const Corpus& corpus,
                                          const HoldOut& held_out, const DocumentBatch& batch,
                                          bool with_ids) {
  std::vector<EncodedDocument> documents;
  documents.reserve(batch.items.size());
  size_t begin = 0;
  for (const Item& item : batch.items) {
    const std::string_view text = std::string_view(batch.text).substr(begin, item.end - begin);
    const Hash128 hash = hash128(text);
    EncodedDocument document{{}, hash, text.size(), item.location, false, item.whole};
    if (with_ids)
      document.ids = encoder.tokenizer.encode_document(text, encoder.add_bos, encoder.add_eos);
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

// One batch of those that several processes divide; what this process has encoded goes to the
// others at once.
EncodedBatch encode_share(const DocumentEncoder& encoder, const Corpus& corpus,
                          const HoldOut& held_out, const DocumentBatch& batch, int64_t number) {
  EncodedBatch encoded;
  encoded.number = number;
  encoded.is_mine = encoder.exchange->is_mine(number);
  encoded.documents = encode_batch(encoder, corpus, held_out, batch, encoded.is_mine);
  Hasher text;
  for (const EncodedDocument& document : encoded.documents)
    text.add(document.hash.low).add(document.hash.high);
  encoded.text = text.digest();
  if (encoded.is_mine) encoder.exchange->give(number, encoded.text, encoded.documents);
  return encoded;
}

// One pass over the documents of a corpus: they are collected into batches, which threads encode
// and which come back in order.
class EncodingPass {
 public:
  using Sink = std::function<void(const EncodedDocument&)>;

  EncodingPass(const DocumentEncoder& encoder, const Corpus& corpus, const HoldOut& held_out,
               const Sink& sink)
      : encoder_(encoder),
        exchange_(encoder.exchange),
        corpus_(corpus),
        held_out_(held_out),
        sink_(sink),
        pool_(num_threads(encoder), most_batches(encoder)) {}

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
    if (exchange_ != nullptr) exchange_->end_pass();
  }

  int64_t documents() const { return documents_; }
  uint64_t bytes() const { return bytes_; }

 private:
  static int num_threads(const DocumentEncoder& encoder) {
    return std::max(encoder.num_threads, 1);
  }
  // Enough for a round of all that encode, but of a thousand threads elsewhere no more than memory
  // here may hold.
  static size_t most_batches(const DocumentEncoder& encoder) {
    const auto here = static_cast<size_t>(num_threads(encoder));
    const size_t all =
        encoder.exchange == nullptr ? here : static_cast<size_t>(encoder.exchange->all_threads());
    return std::min(kBatchesPerThread * all, std::max(kBatchesPerThread * here, kMostBatches));
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
    const int64_t number = exchange_ == nullptr ? 0 : exchange_->begin_block();
    pool_.push([this, number, full = std::move(batch_)]() -> EncodedBatch {
      try {
        if (exchange_ != nullptr) return encode_share(encoder_, corpus_, held_out_, *full, number);
        return {encode_batch(encoder_, corpus_, held_out_, *full, /*with_ids=*/true), 0, {}, true};
      } catch (const std::bad_alloc&) {
        fail_out_of_memory(corpus_.files[full->items.front().location.file].path);
      }
    });
    batch_ = std::make_shared<DocumentBatch>();
  }

  // Gives the documents of the oldest batch to the sink.
  void drain() {
    EncodedBatch batch = pool_.pop();
    if (!batch.is_mine) await_ids(batch);
    const uint64_t before = bytes_;
    for (const EncodedDocument& document : batch.documents) {
      sink_(document);
      if (document.whole) ++documents_;
      bytes_ += document.bytes;
    }
    if (exchange_ != nullptr) exchange_->count_text(batch.number, bytes_ - before);
  }

  // Takes the ids that another process has found; encodes other batches while they have not come.
  void await_ids(EncodedBatch& batch) {
    while (!exchange_->has(batch.number)) {
      if (!pool_.work_once()) break;
    }
    const size_t file =
        batch.documents.empty() ? corpus_.files.size() - 1 : batch.documents.front().location.file;
    exchange_->take(batch.number, batch.text, batch.documents, corpus_.files[file].path);
  }

  const DocumentEncoder& encoder_;
  BlockExchange* exchange_;
  const Corpus& corpus_;
  const HoldOut& held_out_;
  const Sink& sink_;
  std::shared_ptr<DocumentBatch> batch_ = std::make_shared<DocumentBatch>();
  int64_t documents_ = 0;
  uint64_t bytes_ = 0;
  OrderedPool<EncodedBatch> pool_;  // its threads end first
};

}  // namespace

NoDocuments DocumentEncoder::encode(const Corpus& corpus, const HoldOut& held_out,
                                    const std::string& action,
                                    const std::function<void(const EncodedDocument&)>& sink,
                                    const DocumentLocation& from) const {
  tokenizer.require_special_ids(add_bos, add_eos);
  ProgressBar progress(action, corpus.total_bytes());
  EncodingPass pass(*this, corpus, held_out, sink);
  const NoDocuments skipped = corpus.for_each(
      progress,
      [&](std::string_view text, const DocumentLocation& location) { pass.add(text, location); },
      from);
  pass.finish();
  progress.finish(str(counted(pass.documents(), "document"), ", ", format_bytes(pass.bytes())));
  return skipped;
}

}  // namespace lmtrain
