#include "corpus/encode.h"

#include <algorithm>
#include <memory>

#include "base/text.h"
#include "corpus/ordered_pool.h"

namespace lmtrain {
namespace {

// Documents handed to a thread together, so that small ones do not pay for a hand-over each.
struct Batch {
  std::string text;
  std::vector<size_t> ends;
  std::vector<DocumentPlace> places;
};
constexpr size_t kBatchBytes = size_t{1} << 18;
constexpr size_t kBatchesPerThread = 4;

std::vector<EncodedDocument> encode_batch(const DocumentEncoder& encoder, const Batch& batch) {
  std::vector<EncodedDocument> documents;
  documents.reserve(batch.ends.size());
  size_t begin = 0;
  for (size_t i = 0; i < batch.ends.size(); ++i) {
    const std::string_view text = std::string_view(batch.text).substr(begin, batch.ends[i] - begin);
    documents.push_back({encoder.tokenizer.encode_document(text, encoder.add_bos, encoder.add_eos),
                         hash128(text), text.size(), batch.places[i]});
    begin = batch.ends[i];
  }
  return documents;
}

}  // namespace

void DocumentEncoder::encode(const Corpus& corpus, const std::string& action,
                             const std::function<void(const EncodedDocument&)>& sink,
                             const DocumentPlace& from) const {
  tokenizer.require_special_ids(add_bos, add_eos);
  const int threads = std::max(num_threads, 1);
  Progress progress(action, corpus.total_bytes());
  OrderedPool<std::vector<EncodedDocument>> pool(threads,
                                                 kBatchesPerThread * static_cast<size_t>(threads));
  int64_t documents = 0;
  uint64_t bytes = 0;
  const auto drain = [&] {
    for (const EncodedDocument& document : pool.pop()) {
      sink(document);
      ++documents;
      bytes += document.bytes;
    }
  };
  auto batch = std::make_shared<Batch>();
  const auto submit = [&] {
    if (pool.full()) drain();
    pool.push([this, full = std::move(batch)] { return encode_batch(*this, *full); });
    batch = std::make_shared<Batch>();
  };
  corpus.for_each(
      progress,
      [&](std::string_view text, const DocumentPlace& place) {
        batch->text += text;
        batch->ends.push_back(batch->text.size());
        batch->places.push_back(place);
        if (batch->text.size() + batch->ends.size() >= kBatchBytes) submit();
      },
      from);
  submit();
  while (!pool.empty()) drain();
  progress.finish(str(counted(documents, "document"), ", ", format_bytes(bytes)));
}

}  // namespace lmtrain
