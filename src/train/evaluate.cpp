#include "train/evaluate.h"

#include <algorithm>
#include <cmath>

#include "base/terminal/percent_line.h"
#include "batching/batch.h"
#include "device/torch_headers.h"
#include "ops/matmul.h"

namespace lmtrain {
namespace {

// The first token of a document is predicted from nothing, and is no target.
int64_t targets_of(const TokenShard& shard, int64_t document) {
  return std::max<int64_t>(0, shard.document_end(document) - 1 - shard.document_begin(document));
}

struct Window {
  int64_t begin;    // token of the shard
  int64_t targets;  // at most max_length
};

// The first documents, in the shard's order, that hold `budget` targets together; all if that is 0.
int64_t count_documents(const TokenShard& shard, int64_t budget) {
  int64_t targets = 0;
  int64_t document = 0;
  for (; document < shard.num_documents() && (budget <= 0 || targets < budget); ++document)
    targets += targets_of(shard, document);
  return document;
}

std::vector<Window> choose_windows(const TokenShard& shard, const EvalOptions& options,
                                   EvalResult& result) {
  std::vector<Window> windows;
  result.documents = count_documents(shard, options.token_budget);
  for (int64_t document = 0; document < result.documents; ++document) {
    const int64_t end = shard.document_end(document) - 1;  // the last token is a target only
    for (int64_t begin = shard.document_begin(document); begin < end; begin += options.max_length) {
      windows.push_back({begin, std::min(options.max_length, end - begin)});
      result.tokens += windows.back().targets;
    }
    result.bytes += static_cast<int64_t>(shard.raw_bytes(document));
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

double EvalResult::loss() const { return tokens > 0 ? nats / static_cast<double>(tokens) : NAN; }
double EvalResult::perplexity() const { return std::exp(loss()); }
double EvalResult::bits_per_byte() const {
  return bytes > 0 ? nats / (std::log(2.0) * static_cast<double>(bytes)) : NAN;
}

Precision evaluation_precision(const Precision& training, const at::Device& device) {
  return {device.is_cpu() ? at::kFloat : training.dtype};
}

int64_t evaluation_targets(const TokenShard& shard, int64_t token_budget) {
  int64_t targets = 0;
  const int64_t documents = count_documents(shard, token_budget);
  for (int64_t document = 0; document < documents; ++document)
    targets += targets_of(shard, document);
  return targets;
}

std::optional<EvalResult> evaluate(Llama& model, const TokenShard& shard,
                                   const EvalOptions& options,
                                   const std::function<bool()>& keep_going, Processes& processes) {
  const Fp32Sums fp32_sums;
  EvalResult result;
  const std::vector<Window> windows = choose_windows(shard, options, result);
  const auto count = static_cast<int64_t>(windows.size());
  PercentLine progress("evaluating", result.tokens);
  int64_t done = 0;
  for (int64_t first = 0; first < count;) {
    const bool going = keep_going();
    if (!going && processes.is_only()) return std::nullopt;
    progress.show(done);
    double nats = 0;
    for (int rank = 0; rank < processes.count() && first < count; ++rank) {
      const Window* batch = windows.data() + first;
      const int64_t rows =
          std::min(count - first, std::max<int64_t>(1, options.batch_tokens / batch->targets));
      if (rank == processes.rank()) nats = batch_nats(model, shard, batch, rows);
      for (int64_t row = 0; row < rows; ++row) done += batch[row].targets;
      first += rows;
    }
    // Added in the order of the batches; a process that had none adds 0.
    const std::vector<double> all = processes.all_gather({nats, going ? 1.0 : 0.0});
    for (size_t i = 0; i < all.size(); i += 2) {
      if (all[i + 1] == 0) return std::nullopt;
      result.nats += all[i];
    }
  }
  shard.require_unchanged();
  return result;
}

}  // namespace lmtrain
