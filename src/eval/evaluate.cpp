#include "eval/evaluate.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <map>

#include "base/progress.h"
#include "base/text.h"
#include "batching/batch.h"
#include "config/settings.h"
#include "device/device.h"
#include "device/torch_headers.h"
#include "ops/matmul.h"

namespace lmtrain {
namespace {

struct Window {
  int64_t begin;    // token of the shard
  int64_t targets;  // at most max_length
  // The parts that it counts in, as indices of EvalWork::parts. kNoPart: its text has no sets.
  size_t set, length;
};
constexpr size_t kNoPart = SIZE_MAX;

// The work of an evaluation. The results have all their sums but the nats.
struct EvalWork {
  std::vector<Window> windows;
  Evaluation whole;             // `all` alone
  std::vector<EvalPart> parts;  // the sets, then the buckets of lengths
  size_t num_sets = 0;
};

// The number N of the bucket of a document.
int64_t length_bucket(int64_t targets, const EvalOptions& options) {
  const int64_t least = std::max(targets, options.min_length);
  return std::min(options.max_length,
                  static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(least))));
}

void count_document(EvalResult& result, int64_t targets, uint64_t bytes) {
  result.tokens += targets;
  result.bytes += static_cast<int64_t>(bytes);
  ++result.documents;
}

// Names the parts, and tells the index of the bucket of each number.
std::map<int64_t, size_t> make_parts(const TokenShard& shard, const EvalSets& sets,
                                     const EvalOptions& options,
                                     const std::vector<int64_t>& documents, EvalWork& work) {
  for (const std::string& name : sets.names) work.parts.push_back({name, {}});
  work.num_sets = work.parts.size();
  std::map<int64_t, size_t> buckets;
  for (const int64_t document : documents)
    buckets.emplace(length_bucket(document_targets(shard, document), options), 0);
  for (auto& [number, index] : buckets) {
    index = work.parts.size();
    work.parts.push_back({str(kLengthPrefix, number), {}});
  }
  return buckets;
}

EvalWork plan_work(const TokenShard& shard, const EvalSets& sets, const EvalOptions& options) {
  EvalWork work;
  const std::vector<int64_t> documents = choose_documents(shard, options.token_budget, sets);
  const std::map<int64_t, size_t> buckets = make_parts(shard, sets, options, documents, work);
  for (const int64_t document : documents) {
    const int64_t targets = document_targets(shard, document);
    const uint64_t bytes = shard.raw_bytes(document);
    const size_t set = work.num_sets > 0
                           ? static_cast<size_t>(sets.of_document.at(static_cast<size_t>(document)))
                           : kNoPart;
    const size_t length = buckets.at(length_bucket(targets, options));
    count_document(work.whole.all, targets, bytes);
    if (set != kNoPart) count_document(work.parts.at(set).result, targets, bytes);
    count_document(work.parts[length].result, targets, bytes);
    const int64_t first = shard.document_begin(document);
    for (int64_t done = 0; done < targets; done += options.max_length)
      work.windows.push_back(
          {first + done, std::min(options.max_length, targets - done), set, length});
  }
  // Rows of like length side by side need little padding. The sum does not depend on the order.
  std::stable_sort(work.windows.begin(), work.windows.end(),
                   [](const Window& a, const Window& b) { return a.targets > b.targets; });
  return work;
}

// Reads a batch: a window each row.
MicroBatch read_batch(const TokenShard& shard, const Window* windows, int64_t rows) {
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
  return micro_batch(ids, targets, 1.0);
}

// Returns the nats of a batch: of all its windows, then of each part.
std::vector<double> batch_nats(Llama& model, const MicroBatch& batch, const Window* windows,
                               int64_t rows, size_t num_parts) {
  const int64_t length = windows[0].targets;
  std::vector<double> nats(1 + num_parts, 0.0);
  const at::Tensor each = model.target_losses(batch.to(model.device())).cpu().contiguous();
  for (int64_t row = 0; row < rows; ++row) {
    const float* first = each.data_ptr<float>() + row * length;
    const double sum = std::accumulate(first, first + windows[row].targets, 0.0);
    nats[0] += sum;
    for (const size_t part : {windows[row].set, windows[row].length})
      if (part != kNoPart) nats[1 + part] += sum;
  }
  return nats;
}

// Calls read(); returns its error; nothing if it succeeds.
template <class Read>
std::optional<UnreadRows> error_of_reading(const Read& read) {
  try {
    read();
  } catch (const Error& error) {
    return UnreadRows(error);
  }
  return std::nullopt;
}

// Calls read() in every process. If it fails in one, all throw UnreadRows.
template <class Read>
void read_in_all(Processes& processes, const Read& read) {
  const std::optional<UnreadRows> own = error_of_reading(read);
  const std::vector<double> all = processes.all_gather_values({own ? 0.0 : 1.0});
  if (own) throw *own;
  if (std::find(all.begin(), all.end(), 0.0) != all.end()) throw UnreadRows();
}

// The status that each process sends to all others after each batch.
constexpr double kGoing = 1, kStopped = 0, kUnread = -1;

Evaluation result_of(EvalWork work) {
  for (size_t i = 0; i < work.parts.size(); ++i) {
    if (work.parts[i].result.tokens == 0) continue;
    auto& parts = i < work.num_sets ? work.whole.sets : work.whole.lengths;
    parts.push_back(std::move(work.parts[i]));
  }
  return std::move(work.whole);
}

}  // namespace

double EvalResult::loss() const { return tokens > 0 ? nats / static_cast<double>(tokens) : NAN; }
double EvalResult::perplexity() const { return std::exp(loss()); }
double EvalResult::bits_per_byte() const {
  return bytes > 0 ? nats / (std::log(2.0) * static_cast<double>(bytes)) : NAN;
}

EvalOptions evaluation_options(const Config& config, const MicroBatchLimits& micro) {
  const int64_t length = config.sequence.max_length;
  EvalOptions options{length, length * micro_rows(config, micro, length), *config.eval.tokens,
                      config.sequence.min_length};
  if (device_of(config).is_cpu())
    options.batch_tokens = std::min(options.batch_tokens, EvalOptions().batch_tokens);
  return options;
}

Precision evaluation_precision(const Precision& training, const at::Device& device) {
  return {device.is_cpu() ? at::kFloat : training.dtype};
}

int64_t evaluation_targets(const TokenShard& shard, int64_t token_budget, const EvalSets& sets) {
  int64_t targets = 0;
  for (const int64_t document : choose_documents(shard, token_budget, sets))
    targets += document_targets(shard, document);
  return targets;
}

std::optional<Evaluation> evaluate(Llama& model, const TokenShard& shard, const EvalSets& sets,
                                   const EvalOptions& options,
                                   const std::function<bool()>& keep_going, Processes& processes) {
  const Fp32Sums fp32_sums;
  EvalWork work;
  read_in_all(processes, [&] { work = plan_work(shard, sets, options); });
  const std::vector<Window>& windows = work.windows;
  const auto count = static_cast<int64_t>(windows.size());
  PercentLine progress("evaluating", work.whole.all.tokens);
  int64_t done = 0;
  for (int64_t first = 0; first < count;) {
    const bool going = keep_going();
    if (!going && processes.is_only()) return std::nullopt;
    progress.show(done);
    std::vector<double> nats(1 + work.parts.size(), 0.0);
    bool has_batch = false;
    std::optional<UnreadRows> own;
    for (int rank = 0; rank < processes.count() && first < count; ++rank) {
      const Window* batch = windows.data() + first;
      const int64_t rows =
          std::min(count - first, std::max<int64_t>(1, options.batch_tokens / batch->targets));
      if (rank == processes.rank()) {
        MicroBatch read;
        own = error_of_reading([&] { read = read_batch(shard, batch, rows); });
        has_batch = !own;
        if (has_batch) nats = batch_nats(model, read, batch, rows, work.parts.size());
      }
      for (int64_t row = 0; row < rows; ++row) done += batch[row].targets;
      first += rows;
    }
    if (!has_batch) model.take_part_in_evaluation();
    // Added in the order of the batches; a process that had none adds 0.
    nats.push_back(own ? kUnread : going ? kGoing : kStopped);
    const std::vector<double> gathered = processes.all_gather_values(nats);
    if (own) throw *own;
    bool stopped = false;
    for (size_t i = nats.size() - 1; i < gathered.size(); i += nats.size()) {
      if (gathered[i] == kUnread) throw UnreadRows();
      stopped = stopped || gathered[i] == kStopped;
    }
    if (stopped) return std::nullopt;
    for (size_t i = 0; i < gathered.size(); i += nats.size()) {
      work.whole.all.nats += gathered[i];
      for (size_t part = 0; part < work.parts.size(); ++part)
        work.parts[part].result.nats += gathered[i + 1 + part];
    }
  }
  read_in_all(processes, [&] { shard.require_unchanged(); });
  return result_of(std::move(work));
}

}  // namespace lmtrain
