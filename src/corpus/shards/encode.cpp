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

}  // namespace

void DocumentEncoder::encode(const Corpus& corpus, const HoldOut& held_out,
                             const std::string& action,
                             const std::function<void(const EncodedDocument&)>& sink,
                             const DocumentLocation& from) const {
  tokenizer.require_special_ids(add_bos, add_eos);
  const int threads = std::max(num_threads, 1);
  ProgressBar progress(action, corpus.total_bytes());
  const int all_threads = exchange == nullptr ? threads : exchange->all_threads();
  // Enough for a round of all that encode, but of a thousand threads elsewhere no more than memory
  // here may hold.
  const size_t batches = kBatchesPerThread * static_cast<size_t>(all_threads);
  OrderedPool<EncodedBatch> pool(
      threads,
      std::min(batches, std::max(kBatchesPerThread * static_cast<size_t>(threads), kMostBatches)));
  int64_t documents = 0;
  uint64_t bytes = 0;
  const auto await_ids = [&](EncodedBatch& batch) {
    while (!exchange->has(batch.number)) {
      if (!pool.work_once()) break;
    }
    const size_t file =
        batch.documents.empty() ? corpus.files.size() - 1 : batch.documents.front().location.file;
    exchange->take(batch.number, batch.text, batch.documents, corpus.files[file].path);
  };
  const auto drain = [&] {
    EncodedBatch batch = pool.pop();
    if (!batch.is_mine) await_ids(batch);
    const uint64_t before = bytes;
    for (const EncodedDocument& document : batch.documents) {
      sink(document);
      if (document.whole) ++documents;
      bytes += document.bytes;
    }
    if (exchange != nullptr) exchange->count_text(batch.number, bytes - before);
  };
  auto batch = std::make_shared<DocumentBatch>();
  const auto submit = [&] {
    if (pool.full()) drain();
    const int64_t number = exchange == nullptr ? 0 : exchange->begin_block();
    pool.push([this, &corpus, &held_out, number, full = std::move(batch)]() -> EncodedBatch {
      try {
        if (exchange != nullptr) return encode_share(*this, corpus, held_out, *full, number);
        return {encode_batch(*this, corpus, held_out, *full, /*with_ids=*/true), 0, {}, true};
      } catch (const std::bad_alloc&) {
        fail_out_of_memory(corpus.files[full->items.front().location.file].path);
      }
    });
    batch = std::make_shared<DocumentBatch>();
  };
  const auto add = [&](std::string_view text, Item item) {
    batch->text += text;
    item.end = batch->text.size();
    batch->items.push_back(item);
    if (batch->text.size() + batch->items.size() >= kBatchBytes) submit();
  };
  corpus.for_each(
      progress,
      [&](std::string_view text, const DocumentLocation& location) {
        const int32_t source = corpus.files[location.file].source;
        if (held_out.rule_of(source).block == 0) {
          add(text, {0, location, {}, {}});
          return;
        }
        const Hash128 hash = hash128(text);
        const std::vector<TextPart> parts = cut_document(held_out, source, text, hash);
        for (size_t i = 0; i < parts.size(); ++i) {
          const bool is_last = i + 1 == parts.size();
          add(parts[i].text,
              {0, location, parts[i].held_out, is_last ? std::optional(hash) : std::nullopt});
        }
      },
      from);
  submit();
  while (!pool.empty()) drain();
  if (exchange != nullptr) exchange->end_pass();
  progress.finish(str(counted(documents, "document"), ", ", format_bytes(bytes)));
}

}  // namespace lmtrain
