// Documents, rows, streams and plan put together, see batch_order.h: construction, accounts, and
// the way from k to a batch.
#include "batching/batch_order.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <span>
#include <utility>

#include "base/error.h"
#include "base/hash.h"
#include "base/text.h"
#include "batching/batch_plan.h"
#include "batching/row_stream.h"
#include "batching/rows.h"
#include "batching/source_groups.h"

namespace lmtrain {
namespace {

std::unique_ptr<Rows> make_rows(const TokenShard& shard, const DocumentList& documents,
                                uint64_t fingerprint, const SequenceConfig& sequence,
                                const ShuffleKey& key, const Poll& poll) {
  const int64_t min_length = sequence.min_length;
  const int64_t max_length = sequence.max_length;
  const auto cut_rows = [&](const CutRule& cut) -> std::unique_ptr<Rows> {
    return std::make_unique<SequenceRows>(shard, documents, cut, poll);
  };
  switch (sequence.batching) {
    case Batching::kBucket:
      return cut_rows(
          bucket_cut(fingerprint, min_length, max_length, sequence.cut == BucketCut::kBalanced));
    case Batching::kPad:
      return cut_rows(pad_cut(min_length, max_length));
    case Batching::kPack:
      return cut_rows(pack_cut(max_length));
    case Batching::kConcat:
      // No rows have length 0.
      return std::make_unique<ConcatRows>(shard, documents, max_length,
                                          key(RandomStream::kOrder, 0, 0), poll);
  }
  throw Error(ErrorKind::kInternal, "sequence.batching is a way without rows");
}

// Appends the documents and segments of a stream row of `length`, from position `begin` on. If rows
// of the batch are shorter, the stream row becomes several of them.
void add_rows(Batch& batch, int64_t begin, int64_t length,
              const std::vector<RowSequence>& sequences, bool apart) {
  for (const RowSequence& sequence : sequences) batch.documents.push_back(sequence.document);
  auto sequence = sequences.begin();
  for (int64_t at = 0; at < length; at += batch.length) {
    batch.segments.push_back(static_cast<int32_t>(begin + at));
    for (; sequence != sequences.end() && sequence->position < at + batch.length; ++sequence) {
      if (apart && sequence->position > at)
        batch.segments.push_back(static_cast<int32_t>(begin + sequence->position));
    }
  }
}

// Keeps only positions [first, end) of a batch. It has all segments; inputs and targets begin at
// position `read_begin`.
void keep_positions(Batch& batch, int64_t first, int64_t end, int64_t read_begin) {
  for (std::vector<int32_t>* values : {&batch.inputs, &batch.targets}) {
    values->resize(static_cast<size_t>(end - read_begin));
    values->erase(values->begin(), values->begin() + (first - read_begin));
  }
  std::vector<int32_t>& segments = batch.segments;
  segments.erase(std::lower_bound(segments.begin(), segments.end(), end), segments.end());
  segments.erase(segments.begin(), std::lower_bound(segments.begin(), segments.end(), first));
  for (int32_t& segment : segments) segment -= static_cast<int32_t>(first);
}

// The rows of one length of one group.
struct GroupRows {
  std::optional<size_t> index;  // of the length in that group's rows; none: it has none
  RowLength of_length;
};

}  // namespace

struct BatchOrder::Impl {
  explicit Impl(const BatchOrderSpec& spec);

  void make_streams();
  void extend(const Replan& replan, const Poll& poll);
  void summarize();
  Batch batch(int64_t k, const BatchShare& share) const;

  const TokenShard& shard;
  int64_t batch_tokens;
  ShuffleKey key;
  SourceGroups sources;
  std::vector<std::unique_ptr<Rows>> rows;         // by group
  std::vector<std::vector<GroupRows>> group_rows;  // by length, by group
  std::vector<LengthStream> streams;               // by length
  std::optional<BatchPlan> plan;
  std::vector<LengthSummary> lengths;
  int64_t num_targets = 0;
  int64_t targets_given = 0;
};

BatchOrder::Impl::Impl(const BatchOrderSpec& spec)
    : shard(spec.shard),
      batch_tokens(spec.batch_tokens),
      key(spec.fingerprint, spec.data_seed, spec.data.shuffle),
      sources(group_sources(spec.shard, spec.sources, spec.data.train)) {
  for (size_t group = 0; group < sources.groups.size(); ++group) {
    rows.push_back(make_rows(spec.shard, sources.groups[group].documents, hash64(spec.fingerprint),
                             spec.sequence, key.of_group(group), spec.poll));
  }
  make_streams();
  if (streams.empty()) {
    throw Error(ErrorKind::kData,
                str("nothing to train on: none of the ", spec.shard.num_documents(),
                    " documents has two tokens or more"));
  }
  plan.emplace(streams, spec.sequence, batch_tokens, key);
  plan->extend(0, spec.run, spec.poll);
  for (const Replan& replan : spec.replans) extend(replan, spec.poll);
  summarize();
}

void BatchOrder::Impl::extend(const Replan& replan, const Poll& poll) {
  plan->extend(replan.first_batch, replan.left, poll, /*keeps_pace=*/replan.pace.has_value());
}

void BatchOrder::Impl::make_streams() {
  std::map<int64_t, std::vector<GroupRows>> by_length;
  for (size_t group = 0; group < rows.size(); ++group) {
    for (size_t index = 0; index < rows[group]->lengths().size(); ++index) {
      const RowLength& of_length = rows[group]->lengths()[index];
      auto& of_groups = by_length[of_length.length];
      of_groups.resize(rows.size());
      of_groups[group] = {index, of_length};
    }
  }
  for (auto& [length, of_groups] : by_length) {
    std::vector<RowStream::Group> parts;
    double targets = 0;
    double num_rows = 0;
    for (size_t group = 0; group < rows.size(); ++group) {
      const double weight = sources.groups[group].weight;
      parts.push_back({of_groups[group].of_length.rows, weight});
      targets += weight * static_cast<double>(of_groups[group].of_length.targets);
      num_rows += weight * static_cast<double>(of_groups[group].of_length.rows);
    }
    streams.push_back({length, RowStream(std::move(parts), length, key), targets,
                       num_rows * static_cast<double>(length)});
    group_rows.push_back(std::move(of_groups));
  }
}

void BatchOrder::Impl::summarize() {
  const int64_t num_batches = plan->num_batches();
  num_targets = 0;
  lengths.clear();
  // Targets by group: in the planned run, and in one pass.
  std::vector<double> group_trained(rows.size());
  std::vector<double> group_targets(rows.size());
  for (size_t i = 0; i < streams.size(); ++i) {
    const int64_t end = plan->row_before(num_batches, i);
    double trained = 0;
    double sequences = 0;
    for (size_t group = 0; group < rows.size(); ++group) {
      const RowLength& of_length = group_rows[i][group].of_length;
      const auto targets = static_cast<double>(of_length.targets);
      double passes = 0;  // of the group over these rows
      if (of_length.rows != 0)
        passes = streams[i].rows.drawn(end, group) / static_cast<double>(of_length.rows);
      trained += passes * targets;
      group_trained[group] += passes * targets;
      group_targets[group] += targets;
      sequences += sources.groups[group].weight * static_cast<double>(of_length.sequences);
    }
    num_targets += std::llround(trained);
    lengths.push_back({streams[i].length, streams[i].rows.rows_of_epochs(1),
                       std::llround(sequences), std::llround(streams[i].targets_per_epoch),
                       plan->batches_of(i)});
  }
  double given = 0;
  for (size_t i = 0; i < sources.sources.size(); ++i) {
    SourceSummary& source = sources.sources[i];
    const size_t group = sources.group_of_source[i];
    source.epochs = group_targets[group] == 0 ? 0 : group_trained[group] / group_targets[group];
    given += source.weight * static_cast<double>(source.targets);
  }
  targets_given = std::llround(given);
}

Batch BatchOrder::Impl::batch(int64_t k, const BatchShare& share) const {
  const BatchPlan::Slot slot = plan->at(k);
  const LengthStream& stream = streams[slot.index];

  Batch batch;
  batch.index = k;
  batch.length = slot.batch_length;
  batch.batch_rows = batch_tokens / batch.length;
  const RowRange own = rows_of_part(batch.batch_rows, share.rank, share.count);
  batch.first_row = own.first;
  batch.rows = own.end - own.first;
  // The rows of the stream that have positions of the share; one may be several rows of the batch.
  const int64_t first_position = own.first * batch.length;
  const int64_t end_position = own.end * batch.length;
  const int64_t read_first = first_position / stream.length;
  const int64_t read_end = (end_position + stream.length - 1) / stream.length;
  const auto num_read = static_cast<size_t>((read_end - read_first) * stream.length);
  batch.inputs.assign(num_read, 0);
  batch.targets.assign(num_read, kNoTarget);
  batch.segments.reserve(static_cast<size_t>(batch.batch_rows));
  RowStream::Reader reader(stream.rows);
  std::vector<RowSequence> sequences;
  const int64_t num_rows = batch_tokens / stream.length;
  for (int64_t i = 0; i < num_rows; ++i) {
    sequences.clear();
    bool apart = false;
    if (i < slot.num_rows) {
      const RowStream::SourceRow found = reader.at(slot.first_row + i);
      const Rows& of_group = *rows[found.source];
      const size_t index = *group_rows[slot.index][found.source].index;
      if (read_first <= i && i < read_end) {
        const auto begin = static_cast<size_t>((i - read_first) * stream.length);
        const auto length = static_cast<size_t>(stream.length);
        batch.num_targets +=
            of_group.fill(index, found.row, std::span(batch.inputs).subspan(begin, length),
                          std::span(batch.targets).subspan(begin, length), sequences);
      } else {
        batch.num_targets += of_group.lay_out(index, found.row, sequences);
      }
      apart = of_group.sequences_are_apart();
    }
    add_rows(batch, i * stream.length, stream.length, sequences, apart);
  }
  if (batch.segments.size() == static_cast<size_t>(batch.batch_rows)) batch.segments.clear();
  keep_positions(batch, first_position, end_position, read_first * stream.length);
  shard.require_unchanged();
  return batch;
}

BatchOrder::BatchOrder(const BatchOrderSpec& spec) : impl_(std::make_unique<Impl>(spec)) {}

BatchOrder::~BatchOrder() = default;

void BatchOrder::replan(const Replan& replan, const Poll& poll) {
  impl_->extend(replan, poll);
  impl_->summarize();
}

int64_t BatchOrder::num_batches() const { return impl_->plan->num_batches(); }
int64_t BatchOrder::num_targets() const { return impl_->num_targets; }
int64_t BatchOrder::batch_length(int64_t k) const { return impl_->plan->at(k).batch_length; }
Batch BatchOrder::batch(int64_t k, const BatchShare& share) const { return impl_->batch(k, share); }

const std::vector<LengthSummary>& BatchOrder::lengths() const { return impl_->lengths; }
std::vector<int64_t> BatchOrder::batch_lengths() const { return impl_->plan->batch_lengths(); }
std::vector<int64_t> BatchOrder::count_lengths(int64_t begin, int64_t end) const {
  return impl_->plan->count_lengths(begin, end);
}
int64_t BatchOrder::targets_given() const { return impl_->targets_given; }
std::vector<CycleSummary> BatchOrder::cycles() const { return impl_->plan->cycles(); }

const std::vector<SourceSummary>& BatchOrder::sources() const { return impl_->sources.sources; }

}  // namespace lmtrain
