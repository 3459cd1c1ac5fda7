#include "distributed/optimizer_shards.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "base/activities.h"
#include "base/error.h"
#include "base/text.h"
#include "device/releasable_memory.h"
#include "device/torch_headers.h"
#include "distributed/ownership.h"
#include "optim/clip.h"
#include "optim/make_optimizer.h"

namespace lmtrain {

OptimizerShards::OptimizerShards(Processes& processes, const Config& config)
    : OptimizerShards(processes, config, comm_threads(processes, config)) {}

OptimizerShards::OptimizerShards(Processes& processes, const Config& config, CommThreads threads)
    : processes_(processes),
      threads_(std::move(threads)),
      layout_(config.model, *config.model.vocab_size),
      copies_(config.checkpoint.async) {
  if (processes.is_only() || config.parallel.shard == ParallelShard::kNone) return;
  for (const std::vector<int64_t>& cuts : cut_chunks(layout_, config.optimizer, processes.count()))
    chunks_.push_back(divided_at(cuts));
  norm_blocks_.resize(static_cast<size_t>(processes.count()));
  for (const ElementRange& block : norm_blocks(layout_)) {
    block_owners_.push_back(owner_of(block.first));
    norm_blocks_[static_cast<size_t>(block_owners_.back())].push_back(block);
  }
  divides_weights_ = config.parallel.shard == ParallelShard::kParameters;
  gathered_ = divides_weights_ ? std::vector{divided(norms())} : chunks_;
  // On the device "meta" tensors have shapes and no memory.
  Parameters parameters(layout_, at::kFloat, at::kMeta);
  all_buffers_ = make_optimizer(config.optimizer, parameters)->buffers();
}

DividedRange OptimizerShards::divided(const ElementRange& elements) const {
  for (const DividedRange& chunk : chunks_) {
    if (common(chunk.elements, elements).size < elements.size) continue;
    DividedRange part{elements, {}};
    for (const ElementRange& range : chunk.ranges) part.ranges.push_back(common(range, elements));
    return part;
  }
  throw Error(ErrorKind::kInternal, str("the elements from ", elements.first, " are of no chunk"));
}

int OptimizerShards::owner_of(int64_t element) const {
  for (const DividedRange& chunk : chunks_) {
    for (size_t rank = 0; rank < chunk.ranges.size(); ++rank)
      if (chunk.ranges[rank].contains(element)) return static_cast<int>(rank);
  }
  throw Error(ErrorKind::kInternal, str("element ", element, " of the layout has no owner"));
}

std::vector<ElementRange> OptimizerShards::mine() const {
  std::vector<ElementRange> mine;
  for (const DividedRange& chunk : chunks_) {
    const ElementRange& range = chunk.ranges[static_cast<size_t>(processes_.rank())];
    if (range.size > 0) mine.push_back(range);
  }
  return mine;
}

ParameterFilter OptimizerShards::owned() const {
  if (!is_divided()) return every_parameter;
  return [mine = mine()](const ParameterSpec& spec) {
    return std::any_of(mine.begin(), mine.end(),
                       [&](const ElementRange& range) { return range.contains(spec.offset); });
  };
}

double OptimizerShards::gradient_norm(const at::Tensor& grad) const {
  if (!is_divided()) return lmtrain::gradient_norm(grad, layout_);
  const auto rank = static_cast<size_t>(processes_.rank());
  std::vector<double> mine = sums_of_squares(grad, norm_blocks_[rank]);
  size_t most = 0;
  for (const std::vector<ElementRange>& blocks : norm_blocks_) most = std::max(most, blocks.size());
  mine.resize(most);
  const std::vector<double> all = processes_.all_gather_values(mine);
  std::vector<size_t> next(norm_blocks_.size());  // by rank
  double squares = 0;
  for (const int owner : block_owners_) {
    const auto from = static_cast<size_t>(owner);
    squares += all[from * most + next[from]++];
  }
  return std::sqrt(squares);
}

std::string OptimizerShards::first_of_all(const std::string& name) const {
  if (!is_divided()) return name;
  const std::vector<std::string> names = processes_.all_gather_texts(name);
  for (const ParameterSpec& spec : layout_.parameters()) {
    if (std::find(names.begin(), names.end(), spec.name) != names.end()) return spec.name;
  }
  return "";
}

std::string OptimizerShards::broadcast_text(const std::string& text) const {
  return is_divided() ? processes_.broadcast(text) : text;
}

void OptimizerShards::gather(const at::Tensor& flat) {
  for (size_t i = 0; i < gathered_.size(); ++i) {
    threads_.add(i, [flat, ranges = gathered_[i].ranges](RangeExchange& exchange) {
      const Activity gathering("gathering weights from the processes");
      exchange.all_gather(flat, ranges);
    });
  }
  threads_.wait();
}

void OptimizerShards::gather_working(Parameters& parameters) {
  if (!is_divided()) return;
  gather(parameters.working());
  masters_are_stale_ = !parameters.working().is_same(parameters.master());
}

void OptimizerShards::gather_masters(Parameters& parameters) {
  if (!masters_are_stale_) return;
  gather(parameters.master());
  masters_are_stale_ = false;
}

ElementRange OptimizerShards::norms() const {
  return {layout_.decayed_size(), layout_.flat_size() - layout_.decayed_size()};
}

std::optional<std::vector<ElementRange>> OptimizerShards::held_gradient() const {
  if (!divides_weights_) return std::nullopt;
  return mine();
}

void OptimizerShards::spread_masters(Parameters& parameters) {
  for (const ElementRange& range : mine()) parameters.refresh_working(range.first, range.size);
  gather_working(parameters);
  gather_masters(parameters);
}

void OptimizerShards::hand_out_masters(const at::Tensor& all, Parameters& parameters) const {
  for (const DividedRange& chunk : chunks_) {
    for (size_t rank = 0; rank < chunk.ranges.size(); ++rank) {
      const ElementRange& range = chunk.ranges[rank];
      if (range.size == 0) continue;
      const at::Tensor mine = range.of(parameters.master());
      if (processes_.is_first() && rank == 0) mine.copy_(range.of(all));
      processes_.send_recv(processes_.is_first() ? range.of(all) : mine, /*from=*/0,
                           static_cast<int>(rank));
      if (processes_.is_first()) release_pages(range.of(all));
    }
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
  for (const DividedRange& chunk : chunks_) {
    for (size_t rank = 0; rank < chunk.ranges.size(); ++rank) {
      const ElementRange& range = chunk.ranges[rank];
      if (range.size == 0) continue;
      const int owner = static_cast<int>(rank), writer = writers.writer_of(owner);
      const at::Tensor here = range.of(master);
      const bool is_mine = writer == processes_.rank();
      if (owner == writer || all_have_them) {
        if (is_mine) mine.push_back({range.first, in_host_memory(here)});
        continue;
      }
      const at::Tensor host = is_mine ? at::empty({range.size}, at::kFloat) : here;
      processes_.send_recv(host, owner, writer);
      if (is_mine) mine.push_back({range.first, host});
    }
  }
  std::sort(mine.begin(), mine.end(),
            [](const MasterRange& a, const MasterRange& b) { return a.first < b.first; });
  return mine;
}

int OptimizerShards::owner_of_buffer(const std::string& buffer) const {
  if (!is_divided()) return processes_.rank();
  const std::string tensor = buffer.substr(buffer.find('.') + 1);
  for (const ParameterSpec& spec : layout_.parameters())
    if (spec.name == tensor) return owner_of(spec.offset);
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
    f(buffer, owner_of_buffer(buffer.name), found == mine.end() ? at::Tensor() : found->second);
  }
}

void OptimizerShards::load(
    const Optimizer& optimizer,
    const std::function<at::Tensor(const OptimizerBuffer& buffer)>& read) const {
  for_each_buffer(optimizer, [&](const OptimizerBuffer& buffer, int owner, const at::Tensor& mine) {
    at::Tensor stored;
    if (processes_.is_first()) stored = read(buffer);
    if (processes_.is_first() && mine.defined()) mine.copy_(stored);
    if (is_divided()) {
      processes_.send_recv(processes_.is_first() ? stored : mine, /*from=*/0, owner);
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
    if (is_divided() && owner != writer) processes_.send_recv(host, owner, writer);
  });
  return all;
}

}  // namespace lmtrain
