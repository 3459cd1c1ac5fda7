#include "corpus/shards/encode.h"

#include <algorithm>
#include <memory>
#include <new>

#include "base/text.h"
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

}  // namespace

void DocumentEncoder::encode(const Corpus& corpus, const HoldOut& held_out,
                             const std::string& action,
                             const std::function<void(const EncodedDocument&)>& sink,
                             const DocumentLocation& from) const {
  tokenizer.require_special_ids(add_bos, add_eos);
  const int threads = std::max(num_threads, 1);
  ProgressBar progress(action, corpus.total_bytes());
  OrderedPool<std::vector<EncodedDocument>> pool(threads,
                                                 kBatchesPerThread * static_cast<size_t>(threads));
  int64_t documents = 0;
  uint64_t bytes = 0;
  const auto drain = [&] {
    for (const EncodedDocument& document : pool.pop()) {
      sink(document);
      if (document.whole) ++documents;
      bytes += document.bytes;
    }
  };
  auto batch = std::make_shared<DocumentBatch>();
  const auto submit = [&] {
    if (pool.full()) drain();
    pool.push([this, &corpus, &held_out, full = std::move(batch)] {
      try {
        return encode_batch(*this, corpus, held_out, *full);
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
  progress.finish(str(counted(documents, "document"), ", ", format_bytes(bytes)));
}

}  // namespace lmtrain
