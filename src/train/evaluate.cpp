#include "train/evaluate.h"

#include "batching/batch.h"
#include "ops/torch_headers.h"

namespace lmtrain {
namespace {

struct Window {
  int64_t begin;    // token of the shard
  int64_t targets;  // at most max_length
};

std::vector<Window> choose_windows(const TokenShard& shard, const EvalOptions& options,
                                   EvalResult& result) {
  std::vector<Window> windows;
  for (int64_t document = 0; document < shard.num_documents(); ++document) {
    if (options.token_budget > 0 && result.tokens >= options.token_budget) break;
    const int64_t end = shard.document_end(document) - 1;  // the last token is a target only
    for (int64_t begin = shard.document_begin(document); begin < end; begin += options.max_length) {
      windows.push_back({begin, std::min(options.max_length, end - begin)});
      result.tokens += windows.back().targets;
    }
    result.bytes += static_cast<int64_t>(shard.raw_bytes(document));
    ++result.documents;
  }
  // Rows of like length side by side need little padding. The sum does not depend on the order.
  std::stable_sort(windows.begin(), windows.end(),
                   [](const Window& a, const Window& b) { return a.targets > b.targets; });
  return windows;
}

double batch_nats(Llama& model, const TokenShard& shard, const Window* windows, int64_t rows) {
  const int64_t length = windows[0].targets;
  const at::Tensor ids = at::zeros({rows, length}, at::kLong);
  const at::Tensor targets = at::full({rows, length}, kNoTarget, at::kLong);
  std::vector<int32_t> tokens;
  for (int64_t row = 0; row < rows; ++row) {
    tokens.resize(static_cast<size_t>(windows[row].targets + 1));
    shard.read_tokens(windows[row].begin, tokens);
    std::copy(tokens.begin(), tokens.end() - 1, ids.data_ptr<int64_t>() + row * length);
    std::copy(tokens.begin() + 1, tokens.end(), targets.data_ptr<int64_t>() + row * length);
  }
  return model.loss(micro_batch(ids, targets, 1.0).to(model.device())).item<double>();
}

}  // namespace

std::optional<EvalResult> evaluate(Llama& model, const TokenShard& shard,
                                   const EvalOptions& options,
                                   const std::function<bool()>& keep_going) {
  EvalResult result;
  const std::vector<Window> windows = choose_windows(shard, options, result);
  const auto count = static_cast<int64_t>(windows.size());
  for (int64_t first = 0; first < count;) {
    if (!keep_going()) return std::nullopt;
    const Window* batch = windows.data() + first;
    const int64_t rows =
        std::min(count - first, std::max<int64_t>(1, options.batch_tokens / batch->targets));
    result.nats += batch_nats(model, shard, batch, rows);
    first += rows;
  }
  return result;
}

}  // namespace lmtrain
