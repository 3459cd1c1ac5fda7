#include "training/step.h"

#include <bit>

#include "base/error.h"
#include "base/log.h"
#include "base/random.h"
#include "base/text.h"
#include "device/device.h"
#include "device/failure.h"
#include "device/torch_headers.h"
#include "ops/flash_attention.h"

namespace lmtrain {
namespace {

at::Tensor rows_of(const std::vector<int32_t>& values, int64_t first_row, int64_t rows,
                   int64_t length, const at::Device& device) {
  at::Tensor tensor = host_buffer({rows, length}, at::kLong, device);
  std::copy_n(values.begin() + first_row * length, rows * length, tensor.data_ptr<int64_t>());
  return tensor;
}

// Returns the segments of some rows, in positions from the beginning of these rows.
std::vector<int32_t> segments_of(const Batch& batch, int64_t first_row, int64_t rows) {
  const auto at = [&](int64_t row) {
    return std::lower_bound(batch.segments.begin(), batch.segments.end(), row * batch.length);
  };
  std::vector<int32_t> segments(at(first_row), at(first_row + rows));
  for (int32_t& begin : segments) begin -= static_cast<int32_t>(first_row * batch.length);
  return segments;
}

// Returns a number for each of some rows, a function of the batch and the row's place in the whole
// batch; none without dropout.
std::vector<int64_t> dropout_keys_of(const Llama& model, const Batch& batch, int64_t first_row,
                                     int64_t rows) {
  if (model.dropout() == 0) return {};
  const uint64_t of_batch =
      random_bits(model.dropout_seed(), RandomStream::kDropout, static_cast<uint64_t>(batch.index));
  std::vector<int64_t> keys(static_cast<size_t>(rows));
  for (size_t i = 0; i < keys.size(); ++i) {
    const auto row = static_cast<uint64_t>(batch.first_row + first_row) + i;
    keys[i] = static_cast<int64_t>(hash_combine(of_batch, row));
  }
  return keys;
}

// Calls f with each micro-batch of some rows, and whether it is the first and the last.
template <class F>
void for_each_micro_batch(const Llama& model, const Batch& batch, const RowRange& own,
                          int64_t micro_rows, double loss_scale, const F& f) {
  // It contains the loss scale, since the gradient of the logits is stored in fp16 in their place.
  const double scale =
      1.0 / static_cast<double>(std::max<int64_t>(1, batch.num_targets)) * loss_scale;
  for (int64_t row = own.first; row < own.end; row += micro_rows) {
    const int64_t rows = std::min(micro_rows, own.end - row);
    f(micro_batch(rows_of(batch.inputs, row, rows, batch.length, model.device()),
                  rows_of(batch.targets, row, rows, batch.length, model.device()), scale,
                  segments_of(batch, row, rows), model.device(),
                  dropout_keys_of(model, batch, row, rows)),
      row == own.first, row + rows == own.end);
  }
}

double accumulate_once(Llama& model, const Batch& batch, const RowRange& own, int64_t micro_tokens,
                       const at::Tensor& grad, double loss_scale, StepGraphs* graphs,
                       const ElementsFinished& finished) {
  if (own.first == own.end) {
    grad.zero_();
    if (finished) finished(0, grad.numel());
  }
  const auto unscaled = [&](int64_t begin, int64_t size) {
    if (loss_scale != 1) grad.narrow(0, begin, size).mul_(1 / loss_scale);
    finished(begin, size);
  };
  const int64_t micro_rows = std::max<int64_t>(1, micro_tokens / batch.length);
  std::vector<at::Tensor> losses;
  const auto compute = [&](const MicroBatch& micro, bool first, bool last) {
    losses.push_back(graphs != nullptr ? graphs->loss_and_gradient(micro, first)
                                       : model.loss_and_gradient(
                                             micro.to(model.device()), grad, first,
                                             finished && last ? unscaled : ElementsFinished{}));
  };
  for_each_micro_batch(model, batch, own, micro_rows, loss_scale, compute);
  if (loss_scale != 1 && !finished) grad.mul_(1 / loss_scale);
  // Read back once, after all micro-batches were queued.
  double loss = 0;
  for (const at::Tensor& part : losses) loss += part.item<double>();
  return loss / loss_scale;
}

}  // namespace

double accumulate_batch(Llama& model, const Batch& batch, int64_t micro_tokens,
                        const at::Tensor& grad, double loss_scale, StepGraphs* graphs,
                        const ElementsFinished& finished) {
  return accumulate_rows(model, batch, {0, batch.rows}, micro_tokens, grad, loss_scale, graphs,
                         finished);
}

bool give_up_cudnn_attention(const std::exception& error, int64_t length) {
  if (!cudnn_attention_allowed() || !is_refused_by_cudnn(error)) return false;
  allow_cudnn_attention(false);
  log_warning(str("cuDNN does not take rows of length ", length,
                  " of this model: from now on attention is computed by FlashAttention or "
                  "libtorch's own kernel (",
                  describe_failure(error).cause, ")"));
  return true;
}

double accumulate_rows(Llama& model, const Batch& batch, const RowRange& own, int64_t micro_tokens,
                       const at::Tensor& grad, double loss_scale, StepGraphs* graphs,
                       const ElementsFinished& finished) {
  if (finished && graphs != nullptr)
    throw Error(ErrorKind::kInternal, "a captured graph does not tell what it has finished");
  const bool by_graphs = graphs != nullptr && graphs->in_use();
  try {
    return accumulate_once(model, batch, own, micro_tokens, grad, loss_scale, graphs, finished);
  } catch (const std::exception& error) {
    if (finished) throw;
    const bool lost_graphs = by_graphs && !graphs->in_use();
    if (!give_up_cudnn_attention(error, batch.length) && !lost_graphs) throw;
  }
  // The first micro-batch overwrites the gradient, so nothing of the failed attempt is left.
  return accumulate_once(model, batch, own, micro_tokens, grad, loss_scale, graphs, {});
}

std::vector<double> accumulate_by_modules(Llama& model, const Batch& batch,
                                          const std::vector<RowRange>& parts, int64_t micro_rows,
                                          const at::Tensor& grad, double loss_scale,
                                          const ElementsFinished& finished) {
  std::vector<std::vector<MicroBatch>> micros(parts.size());
  try {
    for (size_t part = 0; part < parts.size(); ++part) {
      for_each_micro_batch(model, batch, parts[part], micro_rows, loss_scale,
                           [&](const MicroBatch& micro, bool /*first*/, bool /*last*/) {
                             micros[part].push_back(micro.to(model.device()));
                           });
    }
  } catch (...) {  // the other processes wait for this one in the gathers of the modules
    model.loss_and_gradient_by_modules({{}}, grad, 1, finished);
    throw;
  }
  std::vector<double> losses;
  for (const auto& part :
       model.loss_and_gradient_by_modules(micros, grad, 1 / loss_scale, finished)) {
    double loss = 0;
    for (const at::Tensor& one : part) loss += one.item<double>();
    losses.push_back(loss / loss_scale);
  }
  return losses;
}

StepParts::StepParts(int64_t parts, const BatchShare& share)
    : parts_(parts),
      first_(parts * share.rank / share.count),
      end_(parts * (share.rank + 1) / share.count) {
  const auto is_power = [](int64_t value) {
    return value > 0 && std::has_single_bit(static_cast<uint64_t>(value));
  };
  if (!is_power(parts) || parts % share.count != 0 || !is_power(parts / share.count)) {
    throw Error(ErrorKind::kInternal,
                str(parts, " parts for ", share.count, " processes are no binary tree"));
  }
}

std::vector<RowRange> StepParts::rows_of_share(const Batch& batch) const {
  std::vector<RowRange> all;
  for (int64_t part = first_; part < end_; ++part) {
    const RowRange rows = rows_of_part(batch.batch_rows, part, parts_);
    all.push_back({rows.first - batch.first_row, rows.end - batch.first_row});
  }
  return all;
}

std::vector<double> StepParts::accumulate(Llama& model, const Batch& batch, int64_t micro_tokens,
                                          const at::Tensor& grad, double loss_scale,
                                          StepGraphs* graphs, const ElementsFinished& finished) {
  std::vector<double> losses;
  const std::vector<RowRange> rows_of = rows_of_share(batch);
  for (int64_t part = first_; part < end_; ++part) {
    const RowRange& rows = rows_of[static_cast<size_t>(part - first_)];
    const auto complete_and_tell = [&](int64_t begin, int64_t size) {
      tree_.complete(part - first_, grad, begin, size);
      finished(begin, size);
    };
    const bool tells = finished && part + 1 == end_;
    losses.push_back(accumulate_rows(model, batch, rows, micro_tokens, grad, loss_scale, graphs,
                                     tells ? complete_and_tell : ElementsFinished{}));
    if (!tells) tree_.complete(part - first_, grad);
    if (part + 1 < end_) tree_.keep(part - first_, grad);
  }
  return losses;
}

}  // namespace lmtrain
