#include "run/shared/optimizer_shards.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "base/error.h"
#include "base/text.h"
#include "device/releasable_memory.h"
#include "device/torch_headers.h"
#include "optim/clip.h"
#include "optim/ownership.h"
#include "optim/rules/make_optimizer.h"

namespace lmtrain {

OptimizerShards::OptimizerShards(Processes& processes, const Config& config)
    : processes_(processes),
      layout_(config.model, *config.model.vocab_size),
      copies_(config.checkpoint.async) {
  if (processes.is_only() || config.parallel.shard == ParallelShard::kNone) return;
  ranges_ = ranges_of_ranks(cut_tensors(layout_, config.optimizer, processes.count()));
  for (const ElementRange& range : ranges_) {
    const int64_t last_block = first_block(range.end());
    ElementRange needed = range;
    if (last_block > first_block(range.first)) {
      const int64_t end = std::min(last_block * kNormBlock, layout_.flat_size());
      needed.size = std::max(range.end(), end) - range.first;
    }
    needed_ranges_.push_back(needed);
  }
  divides_weights_ = config.parallel.shard == ParallelShard::kParameters;
  for (const ElementRange& range : ranges_)
    gathered_.push_back(divides_weights_ ? common(range, norms()) : range);
  // On the device "meta" tensors have shapes and no memory.
  Parameters parameters(layout_, at::kFloat, at::kMeta);
  all_buffers_ = make_optimizer(config.optimizer, parameters)->buffers();
}

int64_t OptimizerShards::first_block(int64_t element) {
  return (element + kNormBlock - 1) / kNormBlock;
}

ParameterFilter OptimizerShards::owned() const {
  if (!is_divided()) return every_parameter;
  return [mine = ranges_[static_cast<size_t>(processes_.rank())]](const ParameterSpec& spec) {
    return spec.offset >= mine.first && spec.offset < mine.end();
  };
}

double OptimizerShards::gradient_norm(const at::Tensor& grad) const {
  if (!is_divided()) return lmtrain::gradient_norm(grad);
  const auto blocks_of = [](const ElementRange& range) {
    return std::pair(first_block(range.first), first_block(range.end()));
  };
  int64_t most = 0;
  for (const ElementRange& range : ranges_) {
    const auto [first, last] = blocks_of(range);
    most = std::max(most, last - first);
  }
  const auto [my_first, my_last] = blocks_of(ranges_[static_cast<size_t>(processes_.rank())]);
  std::vector<double> mine = block_sums_of_squares(grad, my_first, my_last);
  mine.resize(static_cast<size_t>(most));
  const std::vector<double> all = processes_.all_gather(mine);
  std::vector<double> blocks(static_cast<size_t>(first_block(layout_.flat_size())));
  for (size_t rank = 0; rank < ranges_.size(); ++rank) {
    const auto [first, last] = blocks_of(ranges_[rank]);
    std::copy_n(all.begin() + static_cast<std::ptrdiff_t>(rank * mine.size()), last - first,
                blocks.begin() + first);
  }
  return std::sqrt(std::accumulate(blocks.begin(), blocks.end(), 0.0));
}

std::string OptimizerShards::first_of_all(const std::string& name) const {
  if (!is_divided()) return name;
  const std::vector<std::string> names = processes_.gather_texts(name);
  for (const ParameterSpec& spec : layout_.parameters()) {
    if (std::find(names.begin(), names.end(), spec.name) != names.end()) return spec.name;
  }
  return "";
}

std::string OptimizerShards::as_the_first_says(const std::string& text) const {
  return is_divided() ? processes_.broadcast(text) : text;
}

void OptimizerShards::gather_working(Parameters& parameters) {
  if (!is_divided()) return;
  processes_.gather_ranges(parameters.working(), gathered_);
  masters_are_stale_ = !parameters.working().is_same(parameters.master());
}

void OptimizerShards::gather_masters(Parameters& parameters) {
  if (!masters_are_stale_) return;
  processes_.gather_ranges(parameters.master(), gathered_);
  masters_are_stale_ = false;
}

ElementRange OptimizerShards::norms() const {
  return {layout_.decayed_size(), layout_.flat_size() - layout_.decayed_size()};
}

std::optional<ElementRange> OptimizerShards::held_gradient() const {
  if (!divides_weights_) return std::nullopt;
  return needed_ranges_[static_cast<size_t>(processes_.rank())];
}

void OptimizerShards::spread_masters(Parameters& parameters) {
  const ElementRange& mine = ranges_[static_cast<size_t>(processes_.rank())];
  parameters.refresh_working(mine.first, mine.size);
  gather_working(parameters);
  gather_masters(parameters);
}

void OptimizerShards::hand_out_masters(Parameters& parameters) const {
  const at::Tensor& master = parameters.master();
  for (size_t rank = 0; rank < ranges_.size(); ++rank) {
    processes_.pass(ranges_[rank].of(master), /*from=*/0, static_cast<int>(rank));
    if (!processes_.is_first() || rank == 0) continue;
    release_pages(ranges_[rank].of(master));
    release_pages(ranges_[rank].of(parameters.working()));
  }
}

at::Tensor OptimizerShards::in_host_memory(const at::Tensor& values) {
  return !copies_ && values.is_cpu() ? values : host_copier_.copy(values);
}

std::vector<MasterRange> OptimizerShards::collect_masters(const Parameters& parameters,
                                                          const CheckpointWriters& writers) {
  const at::Tensor& master = parameters.master();
  std::vector<MasterRange> mine;
  if (!is_divided()) {
    if (processes_.is_first()) mine.push_back({0, in_host_memory(master)});
    return mine;
  }
  const bool all_have_them = !divides_weights_ && !masters_are_stale_;
  for (size_t rank = 0; rank < ranges_.size(); ++rank) {
    const int owner = static_cast<int>(rank), writer = writers.writer_of(owner);
    const ElementRange& range = ranges_[rank];
    const at::Tensor here = range.of(master);
    const bool is_mine = writer == processes_.rank();
    if (owner == writer || all_have_them) {
      if (is_mine) mine.push_back({range.first, in_host_memory(here)});
      continue;
    }
    const at::Tensor host = is_mine ? at::empty({range.size}, at::kFloat) : here;
    processes_.pass(host, owner, writer);
    if (is_mine) mine.push_back({range.first, host});
  }
  return mine;
}

int OptimizerShards::owner_of(const std::string& buffer) const {
  if (!is_divided()) return processes_.rank();
  const std::string tensor = buffer.substr(buffer.find('.') + 1);
  for (const ParameterSpec& spec : layout_.parameters()) {
    if (spec.name != tensor) continue;
    const auto owner = std::find_if(ranges_.begin(), ranges_.end(), [&](const ElementRange& range) {
      return spec.offset >= range.first && spec.offset < range.end();
    });
    return static_cast<int>(owner - ranges_.begin());
  }
  throw Error(ErrorKind::kInternal, str("the optimizer's buffer ", buffer, " is of no tensor"));
}

void OptimizerShards::for_each_buffer(
    const Optimizer& optimizer,
    const std::function<void(const OptimizerBuffer& buffer, int owner, const at::Tensor& mine)>& f)
    const {
  std::map<std::string, at::Tensor> mine;
  for (const OptimizerBuffer& buffer : optimizer.buffers()) mine[buffer.name] = buffer.values;
  for (const OptimizerBuffer& buffer : is_divided() ? all_buffers_ : optimizer.buffers()) {
    const auto found = mine.find(buffer.name);
    f(buffer, owner_of(buffer.name), found == mine.end() ? at::Tensor() : found->second);
  }
}

void OptimizerShards::restore(
    const Optimizer& optimizer,
    const std::function<at::Tensor(const OptimizerBuffer& buffer)>& read) const {
  for_each_buffer(optimizer, [&](const OptimizerBuffer& buffer, int owner, const at::Tensor& mine) {
    at::Tensor stored;
    if (processes_.is_first()) stored = read(buffer);
    if (processes_.is_first() && mine.defined()) mine.copy_(stored);
    if (is_divided()) {
      processes_.pass(processes_.is_first() ? stored : mine, /*from=*/0, owner);
    } else {
      processes_.broadcast(mine);
    }
  });
}

std::vector<OptimizerBuffer> OptimizerShards::collect(const Optimizer& optimizer,
                                                      const CheckpointWriters& writers) {
  std::vector<OptimizerBuffer> all;
  for_each_buffer(optimizer, [&](const OptimizerBuffer& buffer, int owner, const at::Tensor& mine) {
    const int writer = writers.writer_of(is_divided() ? owner : 0);
    const bool is_mine = writer == processes_.rank();
    at::Tensor host = mine;
    if (is_mine) {
      host = mine.defined() ? in_host_memory(mine) : at::empty(buffer.values.sizes(), at::kFloat);
      all.push_back({buffer.name, host});
    }
    if (is_divided() && owner != writer) processes_.pass(host, owner, writer);
  });
  return all;
}

}  // namespace lmtrain
