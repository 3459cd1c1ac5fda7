// Counting batches and ordering their lengths, see batch_plan.h.

#include "batching/batch_plan.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <set>
#include <span>
#include <utility>

#include "base/error.h"
#include "base/random.h"
#include "base/text.h"

namespace lmtrain {

// Orders of lengths, see batch_plan.h; docs/batching.md has the weights in full.

namespace {

// Products of two counts.
using Wide = unsigned __int128;

constexpr int64_t kBlock = 256;

// round(count · part / whole), halves up.
int64_t rounded_share(int64_t count, int64_t part, int64_t whole) {
  const Wide doubled = Wide{2} * static_cast<uint64_t>(count) * static_cast<uint64_t>(part);
  const auto divisor = static_cast<uint64_t>(whole);
  return static_cast<int64_t>((doubled + divisor) / (Wide{2} * divisor));
}

// Fisher & Yates. `begin`: where the slice begins in the order; no two slices share random bits.
void shuffle_slice(std::span<uint8_t> slice, uint64_t key, size_t begin, const Poll& poll) {
  for (size_t i = slice.size(); i > 1; --i) {
    poll_at(begin + i, poll);
    const uint64_t bits = random_bits(key, RandomStream::kCurriculum, begin + i - 1);
    std::swap(slice[i - 1], slice[static_cast<size_t>((Wide{bits} * i) >> 64)]);
  }
}

// Appends counts[i] times i, short lengths first, and shuffles them if there is a key.
void append_slice(const std::vector<int64_t>& counts, std::optional<uint64_t> key,
                  std::vector<uint8_t>& order, const Poll& poll) {
  const size_t begin = order.size();
  for (size_t i = 0; i < counts.size(); ++i) {
    order.insert(order.end(), static_cast<size_t>(counts[i]), static_cast<uint8_t>(i));
  }
  if (key) shuffle_slice(std::span(order).subspan(begin), *key, begin, poll);
}

}  // namespace

std::vector<int64_t> split_in_proportion(int64_t total, const std::vector<int64_t>& weights) {
  const auto sum =
      static_cast<uint64_t>(std::accumulate(weights.begin(), weights.end(), int64_t{0}));
  std::vector<int64_t> parts;
  std::vector<std::pair<uint64_t, size_t>> remainders;
  int64_t missing = total;
  for (size_t i = 0; i < weights.size(); ++i) {
    const Wide share = Wide{static_cast<uint64_t>(total)} * static_cast<uint64_t>(weights[i]);
    parts.push_back(static_cast<int64_t>(share / sum));
    remainders.emplace_back(static_cast<uint64_t>(share % sum), i);
    missing -= parts.back();
  }
  std::stable_sort(remainders.begin(), remainders.end(),
                   [](const auto& a, const auto& b) { return a.first > b.first; });
  for (size_t i = 0; i < static_cast<size_t>(missing); ++i) ++parts[remainders[i].second];
  return parts;
}

std::vector<std::vector<int64_t>> sub_cycle_weights(Growth growth, size_t num_lengths) {
  std::vector<std::vector<int64_t>> weights(num_lengths, std::vector<int64_t>(num_lengths));
  for (size_t length = 0; length < num_lengths; ++length) {
    for (size_t sub_cycle = 0; sub_cycle < num_lengths; ++sub_cycle) {
      // A length's rank rises to the top in the sub-cycle of its own number; the ranks left over
      // fall from there.
      const size_t below = sub_cycle <= length ? length - sub_cycle : sub_cycle;
      const size_t rank = num_lengths - 1 - below;
      weights[length][sub_cycle] =
          growth == Growth::kP2 ? int64_t{1} << rank : static_cast<int64_t>(rank) + 1;
    }
  }
  return weights;
}

namespace {

// Length i has counts[i] batches in all. Returns for each length the number of its batches in cycle
// `cycle`, 0 <= cycle < num_cycles.
std::vector<int64_t> cycle_counts(const std::vector<int64_t>& counts, int64_t cycle,
                                  int64_t num_cycles) {
  std::vector<int64_t> here;
  here.reserve(counts.size());
  for (const int64_t count : counts) {
    here.push_back(rounded_share(count, cycle + 1, num_cycles) -
                   rounded_share(count, cycle, num_cycles));
  }
  return here;
}

}  // namespace

std::vector<uint8_t> mix_lengths(const std::vector<int64_t>& counts, std::optional<uint64_t> key,
                                 const Poll& poll) {
  const int64_t total = std::accumulate(counts.begin(), counts.end(), int64_t{0});
  std::vector<uint8_t> order;
  order.reserve(static_cast<size_t>(total));
  if (key) {
    append_slice(counts, key, order, poll);
    return order;
  }
  // Each position goes to the length that is furthest behind its share. The shortfalls always add
  // up to one batch, so the largest is positive and no length gets more than its count.
  std::vector<int64_t> shortfall(counts.size(), 0);  // in units of 1/total batch
  for (int64_t position = 0; position < total; ++position) {
    poll_at(static_cast<size_t>(position), poll);
    for (size_t i = 0; i < counts.size(); ++i) shortfall[i] += counts[i];
    const auto furthest = std::max_element(shortfall.begin(), shortfall.end());
    *furthest -= total;
    order.push_back(static_cast<uint8_t>(furthest - shortfall.begin()));
  }
  return order;
}

std::vector<uint8_t> grow_lengths(const std::vector<int64_t>& counts, Growth growth,
                                  int64_t num_cycles, std::optional<uint64_t> key,
                                  const Poll& poll) {
  const size_t n = counts.size();
  const auto weights = sub_cycle_weights(growth, n);
  std::vector<uint8_t> order;
  order.reserve(static_cast<size_t>(std::accumulate(counts.begin(), counts.end(), int64_t{0})));
  for (int64_t cycle = 0; cycle < num_cycles; ++cycle) {
    const std::vector<int64_t> in_cycle = cycle_counts(counts, cycle, num_cycles);
    std::vector<int64_t> weight_before(n, 0);
    for (size_t sub_cycle = 0; sub_cycle < n; ++sub_cycle) {
      std::vector<int64_t> here(n);
      for (size_t i = 0; i < n; ++i) {
        const int64_t sum = std::accumulate(weights[i].begin(), weights[i].end(), int64_t{0});
        const int64_t until = weight_before[i] + weights[i][sub_cycle];
        here[i] = rounded_share(in_cycle[i], until, sum) -
                  rounded_share(in_cycle[i], weight_before[i], sum);
        weight_before[i] = until;
      }
      append_slice(here, key, order, poll);
    }
  }
  return order;
}

LengthSequence::LengthSequence(std::vector<uint8_t> order, size_t num_lengths, const Poll& poll)
    : order_(std::move(order)), num_lengths_(num_lengths) {
  std::vector<int64_t> counts(num_lengths, 0);
  for (size_t i = 0; i <= order_.size(); ++i) {
    poll_at(i, poll);
    if (i % kBlock == 0) counts_.insert(counts_.end(), counts.begin(), counts.end());
    if (i < order_.size()) ++counts[order_[i]];
  }
}

int64_t LengthSequence::count_before(int64_t position, size_t index) const {
  const int64_t block = position / kBlock;
  const auto first = order_.begin() + block * kBlock;
  return counts_[static_cast<size_t>(block) * num_lengths_ + index] +
         std::count(first, order_.begin() + position, static_cast<uint8_t>(index));
}

// Caps as a list of steps, see batch_plan.h.

std::vector<int64_t> possible_caps(int64_t min_length, int64_t max_length) {
  std::vector<int64_t> caps = {max_length};
  while (caps.back() % 2 == 0 && caps.back() / 2 >= min_length) caps.push_back(caps.back() / 2);
  std::reverse(caps.begin(), caps.end());
  return caps;
}

LengthCap::LengthCap(const LengthScheduleConfig& schedule, int64_t min_length, int64_t max_length,
                     const RunClock& run) {
  const std::vector<int64_t> caps = possible_caps(min_length, max_length);
  const auto add_curve = [&](double degree) {
    const double duration = run.resolve(schedule.duration);
    add(0, caps.front());
    for (size_t i = 1; i < caps.size(); ++i) {
      // The curve solved for the batch at which it reaches this cap.
      const double rise = static_cast<double>(caps[i] - min_length);
      const double height = static_cast<double>(max_length - min_length);
      add(duration * std::pow(rise / height, degree), caps[i]);
    }
  };
  const auto add_given = [&] {
    double begin = 0;
    for (size_t i = 0; i < schedule.lengths.size(); ++i) {
      const auto above = std::upper_bound(caps.begin(), caps.end(), schedule.lengths[i]);
      add(begin, above == caps.begin() ? caps.front() : *std::prev(above));
      const double end = run.resolve(schedule.boundaries[i]);
      if (end <= begin) {
        throw Error(
            ErrorKind::kConfig,
            str("sequence.schedule.boundaries: boundary ", i + 1, " falls on batch ", end,
                " of this run, which is not after ", begin, "; allowed: above 0, increasing"));
      }
      begin = end;
    }
    add(begin, max_length);
  };
  switch (schedule.type) {
    case LengthScheduleType::kLinear:
      add_curve(1);
      break;
    case LengthScheduleType::kRoot:
      add_curve(schedule.root_degree);
      break;
    case LengthScheduleType::kStep:
      add_given();
      break;
    case LengthScheduleType::kConstant:
    case LengthScheduleType::kNatural:
    case LengthScheduleType::kGrowLinear:
    case LengthScheduleType::kGrowP2:
      add(0, max_length);
      break;
  }
}

int64_t LengthCap::at(int64_t batch) const {
  const auto after =
      std::upper_bound(steps_.begin(), steps_.end(), batch,
                       [](int64_t at, const Step& step) { return at < step.first_batch; });
  return std::prev(after)->length;
}

LengthCap LengthCap::with_left(int64_t batch, int64_t left, int64_t new_left) const {
  LengthCap moved;
  const double ratio = static_cast<double>(new_left) / static_cast<double>(left);
  for (const Step& step : steps_) {
    const auto after = static_cast<double>(step.first_batch - batch);
    moved.add(static_cast<double>(step.first_batch) + std::max(0.0, after) * (ratio - 1),
              step.length);
  }
  return moved;
}

void LengthCap::add(double first_batch, int64_t length) {
  // Quotients of decimals may lie a hair above the batch they mean.
  const double whole = std::ceil(first_batch - 1e-9 * std::max(1.0, first_batch));
  const auto first = static_cast<int64_t>(std::clamp(whole, 0.0, 0x1p62));
  // The next step replaces a step without a batch.
  if (!steps_.empty() && steps_.back().first_batch == first) steps_.pop_back();
  if (!steps_.empty() && steps_.back().length == length) return;
  steps_.push_back({first, length});
}

namespace {

constexpr int64_t kMaxBatches = int64_t{1} << 30;
// Past the plan, a block of batches in proportion repeats without end.
constexpr int64_t kEndlessBlock = 1024;
constexpr int64_t kNoEnd = std::numeric_limits<int64_t>::max();

}  // namespace

BatchPlan::BatchPlan(const std::vector<LengthStream>& streams, const SequenceConfig& sequence,
                     int64_t batch_tokens, const ShuffleKey& key)
    : streams_(streams), sequence_(sequence), batch_tokens_(batch_tokens), key_(key) {
  for (const LengthStream& stream : streams_) {
    positions_.push_back(std::max<int64_t>(1, std::llround(stream.positions_per_epoch)));
  }
  const auto block = split_in_proportion(kEndlessBlock, positions_);
  // No plan begins at batch -1.
  endless_.emplace(mix_lengths(block, key_(RandomStream::kCurriculum, -1, 0)), streams_.size());
}

double BatchPlan::targets_a_batch() const {
  // Rows that are padded or masked hold fewer targets than positions.
  double targets = 0;
  double positions = 0;
  for (const LengthStream& stream : streams_) {
    targets += stream.targets_per_epoch;
    positions += stream.positions_per_epoch;
  }
  return targets * static_cast<double>(batch_tokens_) / positions;
}

int64_t BatchPlan::num_cycles() const {
  const LengthScheduleType type = sequence_.schedule.type;
  const bool grows = type == LengthScheduleType::kGrowLinear || type == LengthScheduleType::kGrowP2;
  return grows ? sequence_.schedule.cycles : 1;
}

std::vector<int64_t> BatchPlan::count_batches(const RunLength& run,
                                              const std::vector<int64_t>& first_row,
                                              const std::vector<int64_t>& end_row) const {
  if (run.epochs > 0) {
    std::vector<int64_t> counts;
    for (size_t i = 0; i < streams_.size(); ++i) {
      const int64_t left = std::max<int64_t>(0, end_row[i] - first_row[i]);
      counts.push_back(std::min(kMaxBatches + 1, (left + rows_a_batch(i) - 1) / rows_a_batch(i)));
    }
    return counts;
  }
  const double num_steps = run.tokens > 0
                               ? std::ceil(static_cast<double>(run.tokens) / targets_a_batch())
                               : static_cast<double>(run.steps);
  return split_in_proportion(
      static_cast<int64_t>(std::min(num_steps, static_cast<double>(kMaxBatches) + 1)), positions_);
}

std::vector<uint8_t> BatchPlan::order_lengths(const std::vector<int64_t>& counts,
                                              int64_t first_batch, const Poll& poll) const {
  const auto key = key_(RandomStream::kCurriculum, first_batch, 0);
  switch (sequence_.schedule.type) {
    case LengthScheduleType::kGrowP2:
      return grow_lengths(counts, Growth::kP2, num_cycles(), key, poll);
    case LengthScheduleType::kGrowLinear:
      return grow_lengths(counts, Growth::kLinear, num_cycles(), key, poll);
    case LengthScheduleType::kConstant:
    case LengthScheduleType::kLinear:
    case LengthScheduleType::kRoot:
    case LengthScheduleType::kStep:
    case LengthScheduleType::kNatural:
      return mix_lengths(counts, key, poll);
  }
  throw Error(ErrorKind::kInternal, "sequence.schedule.type is a schedule without an order");
}

std::vector<uint8_t> BatchPlan::rest_of_lengths(int64_t first_batch, int64_t count,
                                                const Poll& poll) const {
  const Period& before = periods_.back();
  const int64_t begin = first_batch - before.first_batch;
  const int64_t left = before.planned.size() - begin;
  std::vector<int64_t> given(streams_.size());
  std::vector<uint8_t> order;
  order.reserve(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) {
    poll_at(static_cast<size_t>(i), poll);
    // The point of the old plan where the new one is after its batch i: an entry, and the part of
    // it that is done, in parts of `count`.
    const int64_t entry = (i + 1) * left / count;
    const int64_t part = (i + 1) * left % count;
    // The next batch goes to the length that is furthest behind. Numbers of batches of the new plan
    // are compared in parts of `left`.
    size_t next = 0;
    int64_t most = std::numeric_limits<int64_t>::min();
    for (size_t index = 0; index < given.size(); ++index) {
      int64_t due = count * (before.planned.count_before(begin + entry, index) -
                             before.planned.count_before(begin, index));
      if (part > 0 && before.planned.at(begin + entry) == index) due += part;
      const int64_t behind = due - left * given[index];
      if (behind > most) {
        most = behind;
        next = index;
      }
    }
    ++given[next];
    order.push_back(static_cast<uint8_t>(next));
  }
  return order;
}

void BatchPlan::extend(int64_t first_batch, const RunLength& run, const Poll& poll,
                       bool keeps_pace) {
  if (periods_.empty() ? first_batch != 0 : first_batch < periods_.back().first_batch) {
    throw Error(ErrorKind::kInternal, "plans of the order of data are themselves out of order");
  }
  if ((run.steps > 0) + (run.tokens > 0) + (run.epochs > 0) != 1) {
    throw Error(ErrorKind::kConfig, "train: one of steps, tokens and epochs must be above 0");
  }
  std::vector<int64_t> first_row;
  std::vector<int64_t> end_row;
  for (size_t i = 0; i < streams_.size(); ++i) {
    first_row.push_back(periods_.empty() ? 0 : row_before(first_batch, i));
    end_row.push_back(run.epochs > 0 ? streams_[i].rows.rows_of_epochs(run.epochs) : kNoEnd);
  }
  const auto counts = count_batches(run, first_row, end_row);
  const int64_t total = std::accumulate(counts.begin(), counts.end(), int64_t{0});
  if (total > kMaxBatches) {
    throw Error(ErrorKind::kConfig, str("train: the run would take more than ", kMaxBatches,
                                        " batches, the most that can be planned; shorten it or "
                                        "raise batch.tokens"));
  }
  if (total == 0 && periods_.empty()) {
    throw Error(ErrorKind::kConfig,
                str("train.epochs: ", run.epochs, " of this corpus is not one row"));
  }
  // Past its plan a run has no rest to go through.
  const int64_t left = std::exchange(num_batches_, first_batch + total) - first_batch;
  if (keeps_pace && left > 0) {
    const LengthCap cap = periods_.back().cap.with_left(first_batch, left, total);
    LengthSequence lengths(rest_of_lengths(first_batch, total, poll), streams_.size(), poll);
    periods_.push_back(
        {first_batch, std::move(first_row), std::move(end_row), std::move(lengths), cap});
    return;
  }
  const double epoch = std::accumulate(positions_.begin(), positions_.end(), 0.0);
  const RunClock clock{
      .total = static_cast<double>(num_batches_),
      .tokens_per_step = targets_a_batch(),
      .tokens_per_epoch = epoch / static_cast<double>(batch_tokens_) * targets_a_batch()};
  periods_.push_back(
      {first_batch, std::move(first_row), std::move(end_row),
       LengthSequence(order_lengths(counts, first_batch, poll), streams_.size(), poll),
       LengthCap(sequence_.schedule, sequence_.min_length, sequence_.max_length, clock)});
}

const BatchPlan::Period& BatchPlan::period_of(int64_t k) const {
  if (k < 0) throw Error(ErrorKind::kInternal, str("there is no batch ", k));
  const auto after = std::upper_bound(
      periods_.begin(), periods_.end(), k,
      [](int64_t batch, const Period& period) { return batch < period.first_batch; });
  return *std::prev(after);
}

BatchPlan::Slot BatchPlan::at(int64_t k) const {
  const Period& period = period_of(k);
  const int64_t position = k - period.first_batch;
  if (position >= period.planned.size() && period.end_row[0] != kNoEnd) {
    throw Error(ErrorKind::kInternal, str("batch ", k, " is past the end of the last epoch"));
  }
  const size_t index = position < period.planned.size()
                           ? period.planned.at(position)
                           : endless_->at((position - period.planned.size()) % kEndlessBlock);
  const int64_t first_row =
      period.first_row[index] + batches_before(period, k, index) * rows_a_batch(index);
  const int64_t left = period.end_row[index] - first_row;
  return {index, first_row, std::clamp<int64_t>(left, 0, rows_a_batch(index)),
          std::min(streams_[index].length, period.cap.at(k))};
}

int64_t BatchPlan::batches_before(const Period& period, int64_t k, size_t index) const {
  const int64_t position = k - period.first_batch;
  const int64_t past_plan = std::max<int64_t>(0, position - period.planned.size());
  return period.planned.count_before(position - past_plan, index) +
         past_plan / kEndlessBlock * endless_->count_before(kEndlessBlock, index) +
         endless_->count_before(past_plan % kEndlessBlock, index);
}

int64_t BatchPlan::row_before(int64_t k, size_t index) const {
  // The period of batch k - 1, also if the next period begins at k.
  const Period& period = period_of(std::max<int64_t>(0, k - 1));
  const int64_t row =
      period.first_row[index] + batches_before(period, k, index) * rows_a_batch(index);
  return std::min(row, std::max(period.first_row[index], period.end_row[index]));
}

int64_t BatchPlan::batches_of(size_t index) const {
  int64_t batches = 0;
  for (size_t i = 0; i < periods_.size(); ++i) {
    const bool last = i + 1 == periods_.size();
    const int64_t end = last ? num_batches_ : periods_[i + 1].first_batch;
    batches += batches_before(periods_[i], end, index);
  }
  return batches;
}

std::vector<CycleSummary> BatchPlan::cycles() const {
  const Period& last = periods_.back();
  std::vector<int64_t> counts;
  for (size_t i = 0; i < streams_.size(); ++i) {
    counts.push_back(last.planned.count_before(last.planned.size(), i));
  }
  std::vector<CycleSummary> cycles;
  int64_t first_batch = last.first_batch;
  for (int64_t cycle = 0; cycle < num_cycles(); ++cycle) {
    cycles.push_back({first_batch, cycle_counts(counts, cycle, num_cycles())});
    for (const int64_t count : cycles.back().batches) first_batch += count;
  }
  return cycles;
}

std::vector<int64_t> BatchPlan::batch_lengths() const {
  std::set<int64_t> lengths;
  for (const LengthStream& stream : streams_) {
    for (const Period& period : periods_) {
      for (const LengthCap::Step& step : period.cap.steps()) {
        lengths.insert(std::min(stream.length, step.length));
      }
    }
  }
  return {lengths.begin(), lengths.end()};
}

std::vector<int64_t> BatchPlan::count_lengths(int64_t begin, int64_t end) const {
  const std::vector<int64_t> lengths = batch_lengths();
  std::vector<int64_t> counts(lengths.size());
  for (size_t s = 0; s < periods_.size(); ++s) {
    const Period& period = periods_[s];
    const int64_t period_end = s + 1 < periods_.size() ? periods_[s + 1].first_batch : kNoEnd;
    const std::vector<LengthCap::Step>& caps = period.cap.steps();
    for (size_t c = 0; c < caps.size(); ++c) {
      const int64_t cap_end = c + 1 < caps.size() ? caps[c + 1].first_batch : kNoEnd;
      const int64_t from = std::max({begin, period.first_batch, caps[c].first_batch});
      const int64_t to = std::min({end, period_end, cap_end});
      if (from >= to) continue;
      for (size_t i = 0; i < streams_.size(); ++i) {
        const int64_t length = std::min(streams_[i].length, caps[c].length);
        const auto found = std::lower_bound(lengths.begin(), lengths.end(), length);
        counts[static_cast<size_t>(found - lengths.begin())] +=
            batches_before(period, to, i) - batches_before(period, from, i);
      }
    }
  }
  return counts;
}

}  // namespace lmtrain
