// Rows and lengths put together, see batch_order.h. Rows come from pieces.h and concat.h, orders of
// lengths from curriculum.h; here are the plan of a run and the way from k to its rows.
#include "batching/batch_order.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>
#include <utility>

#include "base/error.h"
#include "base/hash.h"
#include "base/random.h"
#include "base/text.h"
#include "batching/concat.h"
#include "batching/curriculum.h"
#include "batching/pieces.h"

namespace lmtrain {
namespace {

// A plan takes a byte a batch.
constexpr int64_t kMaxBatches = int64_t{1} << 30;
// Past the plan, a block of batches in proportion repeats without end.
constexpr int64_t kEndlessBlock = 1024;
constexpr int64_t kNoEnd = std::numeric_limits<int64_t>::max();

bool is_power_of_two(int64_t value) {
  return value > 0 && std::has_single_bit(static_cast<uint64_t>(value));
}

void check(const SequenceConfig& sequence, int64_t batch_tokens) {
  const std::string& batching = sequence.batching;
  const std::string& schedule = sequence.schedule.type;
  const auto refuse = [](const auto&... message) {
    throw Error(ErrorKind::kConfig, str(message...));
  };
  if (batching != "bucket" && batching != "pad" && batching != "concat") {
    refuse("sequence.batching: \"", batching, "\" is not available; use bucket, pad or concat");
  }
  if (schedule != "constant" && schedule != "natural" && schedule != "grow_linear" &&
      schedule != "grow_p2") {
    refuse("sequence.schedule.type: \"", schedule,
           "\" is not available; use constant, natural, grow_linear or grow_p2");
  }
  if (batching == "concat" && schedule != "constant") {
    refuse("sequence.schedule.type: \"", schedule,
           "\" orders rows of different lengths, but sequence.batching \"concat\" has one length; "
           "use constant, or batching bucket or pad");
  }
  if (sequence.max_length < 1 || sequence.min_length < 1 ||
      sequence.min_length > sequence.max_length) {
    refuse("sequence.min_length (", sequence.min_length, ") must be from 1 to max_length (",
           sequence.max_length, ")");
  }
  if (batching != "concat" &&
      !(is_power_of_two(sequence.min_length) && is_power_of_two(sequence.max_length))) {
    refuse("sequence.min_length (", sequence.min_length, ") and max_length (", sequence.max_length,
           ") must be powers of two for batching \"", batching, "\"");
  }
  if (batching == "bucket" && sequence.cut != "balanced" && sequence.cut != "longest") {
    refuse("sequence.cut: \"", sequence.cut, "\" is unknown; use balanced or longest");
  }
  if (sequence.schedule.cycles < 1) {
    refuse("sequence.schedule.cycles (", sequence.schedule.cycles, ") must be at least 1");
  }
  if (batch_tokens < 1 || batch_tokens % sequence.max_length != 0) {
    refuse("batch.tokens (", batch_tokens, ") must be a multiple of sequence.max_length (",
           sequence.max_length, ")");
  }
}

std::unique_ptr<Rows> make_rows(const TokenShard& shard, uint64_t fingerprint,
                                const SequenceConfig& sequence,
                                std::optional<uint64_t> document_key) {
  const int64_t min_length = sequence.min_length;
  const int64_t max_length = sequence.max_length;
  if (sequence.batching == "concat") {
    return std::make_unique<ConcatRows>(shard, max_length, document_key);
  }
  return std::make_unique<PieceRows>(
      shard, min_length,
      sequence.batching == "pad"
          ? pad_cut(min_length, max_length)
          : bucket_cut(fingerprint, min_length, max_length, sequence.cut == "balanced"));
}

// One plan: from its first batch to that of the next plan.
struct Segment {
  int64_t first_batch;
  std::vector<int64_t> first_row;  // by length: where its stream stands then
  std::vector<int64_t> end_row;    // by length: rows from here on are masked (kNoEnd: never)
  LengthSequence planned;
};

// The ordinal-th batch (of its segment) of a length.
struct Slot {
  size_t index;
  int64_t ordinal;
};

}  // namespace

struct BatchOrder::Impl {
  Impl(const TokenShard& shard, const std::string& fingerprint, const SequenceConfig& sequence_in,
       const DataConfig& data, int64_t data_seed, int64_t batch_tokens_in);

  const std::vector<RowLength>& lengths() const { return rows->lengths(); }
  int64_t rows_a_batch(size_t index) const { return batch_tokens / lengths()[index].length; }
  // A key of the order of data that depends on two numbers.
  uint64_t key(RandomStream stream, int64_t a, int64_t b) const {
    return random_bits(base_key, stream,
                       hash_combine(static_cast<uint64_t>(a), static_cast<uint64_t>(b)));
  }

  std::vector<int64_t> count_batches(const RunLength& run, const std::vector<int64_t>& first_row,
                                     const std::vector<int64_t>& end_row) const;
  void add_segment(int64_t first_batch, const RunLength& run);
  void summarize();
  double source_epochs(int64_t k) const;
  std::vector<CycleSummary> cycles() const;

  const Segment& segment_of(int64_t k) const;
  Slot slot(const Segment& segment, int64_t k) const;
  int64_t batches_before(const Segment& segment, int64_t k, size_t index) const;
  // Where the stream of a length stands before batch k.
  int64_t row_before(int64_t k, size_t index) const;

  SequenceConfig sequence;
  bool shuffle;
  int64_t batch_tokens;
  uint64_t base_key;
  std::unique_ptr<Rows> rows;
  std::vector<int64_t> positions;  // by length, an epoch
  std::optional<LengthSequence> endless;
  std::vector<Segment> segments;
  std::vector<LengthSummary> summaries;
  int64_t num_batches = 0;
  int64_t num_targets = 0;
  int64_t num_documents = 0;
  int64_t targets_given = 0;  // of an epoch
  std::vector<SourceSummary> sources;
};

BatchOrder::Impl::Impl(const TokenShard& shard, const std::string& fingerprint,
                       const SequenceConfig& sequence_in, const DataConfig& data, int64_t data_seed,
                       int64_t batch_tokens_in)
    : sequence(sequence_in),
      shuffle(data.shuffle),
      batch_tokens(batch_tokens_in),
      base_key(hash_combine(hash64(fingerprint), static_cast<uint64_t>(data_seed))) {
  check(sequence, batch_tokens);
  std::optional<uint64_t> document_key;
  if (shuffle) document_key = key(RandomStream::kOrder, 0, 0);  // no rows have length 0
  rows = make_rows(shard, hash64(fingerprint), sequence, document_key);
  if (lengths().empty()) {
    throw Error(ErrorKind::kData, str("nothing to train on: none of the ", shard.num_documents(),
                                      " documents has two tokens or more"));
  }
  for (const RowLength& length : lengths()) positions.push_back(length.positions());
  num_documents = shard.num_documents();
  for (int64_t document = 0; document < num_documents; ++document) {
    targets_given += std::max<int64_t>(0, shard.document_size(document) - 1);
  }
  const auto block = split_in_proportion(kEndlessBlock, positions);
  std::optional<uint64_t> block_key;
  if (shuffle) block_key = key(RandomStream::kCurriculum, -1, 0);  // no plan begins at batch -1
  endless.emplace(mix_lengths(block, block_key), lengths().size());
}

std::vector<int64_t> BatchOrder::Impl::count_batches(const RunLength& run,
                                                     const std::vector<int64_t>& first_row,
                                                     const std::vector<int64_t>& end_row) const {
  if (run.epochs > 0) {
    std::vector<int64_t> counts;
    for (size_t i = 0; i < lengths().size(); ++i) {
      const int64_t left = std::max<int64_t>(0, end_row[i] - first_row[i]);
      counts.push_back(std::min(kMaxBatches + 1, (left + rows_a_batch(i) - 1) / rows_a_batch(i)));
    }
    return counts;
  }
  double num_steps = static_cast<double>(run.steps);
  if (run.tokens > 0) {
    // Rows that are padded or masked hold fewer targets than positions.
    double epoch_targets = 0;
    double epoch_positions = 0;
    for (const RowLength& length : lengths()) {
      epoch_targets += static_cast<double>(length.targets);
      epoch_positions += static_cast<double>(length.positions());
    }
    num_steps = std::ceil(static_cast<double>(run.tokens) * epoch_positions /
                          (epoch_targets * static_cast<double>(batch_tokens)));
  }
  return split_in_proportion(
      static_cast<int64_t>(std::min(num_steps, static_cast<double>(kMaxBatches) + 1)), positions);
}

void BatchOrder::Impl::add_segment(int64_t first_batch, const RunLength& run) {
  if (!segments.empty() && first_batch < segments.back().first_batch) {
    throw Error(ErrorKind::kInternal, "plans of the order of data are themselves out of order");
  }
  if ((run.steps > 0) + (run.tokens > 0) + (run.epochs > 0) != 1) {
    throw Error(ErrorKind::kConfig, "train: one of steps, tokens and epochs must be above 0");
  }
  std::vector<int64_t> first_row;
  std::vector<int64_t> end_row;
  for (size_t i = 0; i < lengths().size(); ++i) {
    first_row.push_back(segments.empty() ? 0 : row_before(first_batch, i));
    const double end = std::round(run.epochs * static_cast<double>(lengths()[i].rows));
    end_row.push_back(run.epochs > 0 ? static_cast<int64_t>(std::min(end, 0x1p62)) : kNoEnd);
  }
  const auto counts = count_batches(run, first_row, end_row);
  const int64_t total = std::accumulate(counts.begin(), counts.end(), int64_t{0});
  if (total > kMaxBatches) {
    throw Error(ErrorKind::kConfig, str("train: the run would take more than ", kMaxBatches,
                                        " batches, the most that can be planned; shorten it or "
                                        "raise batch.tokens"));
  }
  if (total == 0 && segments.empty()) {
    throw Error(ErrorKind::kConfig,
                str("train.epochs: ", run.epochs, " of this corpus is not one row"));
  }
  std::optional<uint64_t> order_key;
  if (shuffle) order_key = key(RandomStream::kCurriculum, first_batch, 0);
  const std::string& schedule = sequence.schedule.type;
  auto order = schedule == "grow_p2" || schedule == "grow_linear"
                   ? grow_lengths(counts, schedule == "grow_p2" ? Growth::kP2 : Growth::kLinear,
                                  sequence.schedule.cycles, order_key)
                   : mix_lengths(counts, order_key);
  segments.push_back({first_batch, std::move(first_row), std::move(end_row),
                      LengthSequence(std::move(order), lengths().size())});
  num_batches = first_batch + total;
}

void BatchOrder::Impl::summarize() {
  for (size_t i = 0; i < lengths().size(); ++i) {
    const RowLength& length = lengths()[i];
    int64_t batches = 0;
    for (size_t s = 0; s < segments.size(); ++s) {
      const int64_t end = s + 1 < segments.size() ? segments[s + 1].first_batch : num_batches;
      batches += batches_before(segments[s], end, i);
    }
    summaries.push_back({length.length, length.rows, length.rows, length.targets, batches});
    const double epochs =
        static_cast<double>(row_before(num_batches, i)) / static_cast<double>(length.rows);
    num_targets += std::llround(epochs * static_cast<double>(length.targets));
  }
  sources.push_back({0, 1, num_documents, targets_given, source_epochs(num_batches)});
}

double BatchOrder::Impl::source_epochs(int64_t k) const {
  double targets = 0;
  for (size_t i = 0; i < lengths().size(); ++i) {
    const double epochs =
        static_cast<double>(row_before(k, i)) / static_cast<double>(lengths()[i].rows);
    targets += epochs * static_cast<double>(lengths()[i].targets);
  }
  return targets / static_cast<double>(targets_given);
}

std::vector<CycleSummary> BatchOrder::Impl::cycles() const {
  const Segment& last = segments.back();
  const bool grows = sequence.schedule.type.starts_with("grow_");
  const int64_t num_cycles = grows ? sequence.schedule.cycles : 1;
  const int64_t size = last.planned.size();
  std::vector<int64_t> counts;
  for (size_t i = 0; i < lengths().size(); ++i)
    counts.push_back(last.planned.count_before(size, i));
  std::vector<CycleSummary> cycles;
  int64_t first_batch = last.first_batch;
  for (int64_t cycle = 0; cycle < num_cycles; ++cycle) {
    cycles.push_back({first_batch, cycle_counts(counts, cycle, num_cycles)});
    for (const int64_t count : cycles.back().batches) first_batch += count;
  }
  return cycles;
}

const Segment& BatchOrder::Impl::segment_of(int64_t k) const {
  if (k < 0) throw Error(ErrorKind::kInternal, str("there is no batch ", k));
  const auto after = std::upper_bound(
      segments.begin(), segments.end(), k,
      [](int64_t batch, const Segment& segment) { return batch < segment.first_batch; });
  return *std::prev(after);
}

Slot BatchOrder::Impl::slot(const Segment& segment, int64_t k) const {
  const int64_t position = k - segment.first_batch;
  if (position >= segment.planned.size() && segment.end_row[0] != kNoEnd) {
    throw Error(ErrorKind::kInternal, str("batch ", k, " is past the end of the last epoch"));
  }
  const size_t index = position < segment.planned.size()
                           ? segment.planned.at(position)
                           : endless->at((position - segment.planned.size()) % kEndlessBlock);
  return {index, batches_before(segment, k, index)};
}

int64_t BatchOrder::Impl::batches_before(const Segment& segment, int64_t k, size_t index) const {
  const int64_t position = k - segment.first_batch;
  const int64_t past_plan = std::max<int64_t>(0, position - segment.planned.size());
  return segment.planned.count_before(position - past_plan, index) +
         past_plan / kEndlessBlock * endless->count_before(kEndlessBlock, index) +
         endless->count_before(past_plan % kEndlessBlock, index);
}

int64_t BatchOrder::Impl::row_before(int64_t k, size_t index) const {
  // The plan that made the batches before k, also where the next begins at k.
  const Segment& segment = segment_of(std::max<int64_t>(0, k - 1));
  const int64_t row =
      segment.first_row[index] + batches_before(segment, k, index) * rows_a_batch(index);
  return std::min(row, std::max(segment.first_row[index], segment.end_row[index]));
}

BatchOrder::BatchOrder(const TokenShard& shard, const std::string& fingerprint,
                       const SequenceConfig& sequence, const DataConfig& data, int64_t data_seed,
                       int64_t batch_tokens, const RunLength& run,
                       const std::vector<Replan>& replans)
    : impl_(std::make_unique<Impl>(shard, fingerprint, sequence, data, data_seed, batch_tokens)) {
  impl_->add_segment(0, run);
  for (const Replan& replan : replans) impl_->add_segment(replan.first_batch, replan.left);
  impl_->summarize();
}

BatchOrder::~BatchOrder() = default;

int64_t BatchOrder::num_batches() const { return impl_->num_batches; }
int64_t BatchOrder::num_targets() const { return impl_->num_targets; }
const std::vector<LengthSummary>& BatchOrder::lengths() const { return impl_->summaries; }
int64_t BatchOrder::targets_given() const { return impl_->targets_given; }
std::vector<CycleSummary> BatchOrder::cycles() const { return impl_->cycles(); }
const std::vector<SourceSummary>& BatchOrder::sources() const { return impl_->sources; }

std::vector<int64_t> BatchOrder::batch_lengths() const {
  std::vector<int64_t> lengths;
  for (const RowLength& length : impl_->lengths()) lengths.push_back(length.length);
  return lengths;
}

std::vector<double> BatchOrder::source_epochs(int64_t k) const { return {impl_->source_epochs(k)}; }

int64_t BatchOrder::batch_length(int64_t k) const {
  return impl_->lengths()[impl_->slot(impl_->segment_of(k), k).index].length;
}

Batch BatchOrder::batch(int64_t k) const {
  const Segment& segment = impl_->segment_of(k);
  const auto [index, ordinal] = impl_->slot(segment, k);
  const RowLength& of_length = impl_->lengths()[index];

  Batch batch;
  batch.index = k;
  batch.length = of_length.length;
  batch.rows = impl_->rows_a_batch(index);
  const auto num_positions = static_cast<size_t>(impl_->batch_tokens);
  batch.inputs.assign(num_positions, 0);
  batch.targets.assign(num_positions, kNoTarget);
  batch.documents.assign(static_cast<size_t>(batch.rows), -1);

  const int64_t first_row = segment.first_row[index] + ordinal * batch.rows;
  const int64_t num_rows = std::clamp<int64_t>(segment.end_row[index] - first_row, 0, batch.rows);
  std::optional<Permutation> permutation;
  const auto length = static_cast<size_t>(batch.length);
  for (int64_t i = 0; i < num_rows; ++i) {
    const int64_t epoch = (first_row + i) / of_length.rows;
    int64_t row = (first_row + i) % of_length.rows;
    if (impl_->shuffle) {
      if (!permutation || row == 0) {
        permutation.emplace(static_cast<uint64_t>(of_length.rows),
                            impl_->key(RandomStream::kOrder, batch.length, epoch));
      }
      row = static_cast<int64_t>((*permutation)(static_cast<uint64_t>(row)));
    }
    const auto at = static_cast<size_t>(i);
    const RowContent content =
        impl_->rows->fill(index, row, std::span(batch.inputs).subspan(at * length, length),
                          std::span(batch.targets).subspan(at * length, length));
    batch.documents[at] = content.document;
    batch.num_targets += content.num_targets;
  }
  return batch;
}

}  // namespace lmtrain
