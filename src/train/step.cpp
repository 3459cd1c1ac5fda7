#include "train/step.h"

#include "base/terminal/log.h"
#include "base/text.h"
#include "device/device.h"
#include "device/torch_headers.h"
#include "ops/flash_attention.h"
#include "train/failure.h"

namespace lmtrain {
namespace {

at::Tensor rows_of(const std::vector<int32_t>& values, int64_t first_row, int64_t rows,
                   int64_t length, const at::Device& device) {
  at::Tensor tensor = host_buffer({rows, length}, at::kLong, device);
  std::copy_n(values.begin() + first_row * length, rows * length, tensor.data_ptr<int64_t>());
  return tensor;
}

// The segments of some rows, in positions counted from the first of them.
std::vector<int32_t> segments_of(const Batch& batch, int64_t first_row, int64_t rows) {
  const auto at = [&](int64_t row) {
    return std::lower_bound(batch.segments.begin(), batch.segments.end(), row * batch.length);
  };
  std::vector<int32_t> segments(at(first_row), at(first_row + rows));
  for (int32_t& begin : segments) begin -= static_cast<int32_t>(first_row * batch.length);
  return segments;
}

double accumulate_once(Llama& model, const Batch& batch, const RowRange& own, int64_t micro_tokens,
                       const at::Tensor& grad, double loss_scale, StepGraphs* graphs) {
  if (own.first == own.end) grad.zero_();
  const int64_t micro_rows = std::max<int64_t>(1, micro_tokens / batch.length);
  // With the loss scale, so that the logits' gradient, which replaces them, is a fp16 number.
  const double scale =
      1.0 / static_cast<double>(std::max<int64_t>(1, batch.num_targets)) * loss_scale;
  std::vector<at::Tensor> losses;
  for (int64_t row = own.first; row < own.end; row += micro_rows) {
    const int64_t rows = std::min(micro_rows, own.end - row);
    const MicroBatch micro =
        micro_batch(rows_of(batch.inputs, row, rows, batch.length, model.device()),
                    rows_of(batch.targets, row, rows, batch.length, model.device()), scale,
                    segments_of(batch, row, rows), model.device());
    const bool first = row == own.first;
    losses.push_back(graphs != nullptr
                         ? graphs->loss_and_gradient(micro, first)
                         : model.loss_and_gradient(micro.to(model.device()), grad, first));
  }
  if (loss_scale != 1) grad.mul_(1 / loss_scale);
  // Read back once, after all micro-batches were queued.
  double loss = 0;
  for (const at::Tensor& part : losses) loss += part.item<double>();
  return loss / loss_scale;
}

}  // namespace

double accumulate_batch(Llama& model, const Batch& batch, int64_t micro_tokens,
                        const at::Tensor& grad, double loss_scale, StepGraphs* graphs) {
  return accumulate_rows(model, batch, {0, batch.rows}, micro_tokens, grad, loss_scale, graphs);
}

double accumulate_rows(Llama& model, const Batch& batch, const RowRange& own, int64_t micro_tokens,
                       const at::Tensor& grad, double loss_scale, StepGraphs* graphs) {
  const bool by_graphs = graphs != nullptr && graphs->in_use();
  try {
    return accumulate_once(model, batch, own, micro_tokens, grad, loss_scale, graphs);
  } catch (const std::exception& error) {
    const bool lost_graphs = by_graphs && !graphs->in_use();
    const bool refused = cudnn_attention_allowed() && is_refused_by_cudnn(error);
    if (!lost_graphs && !refused) throw;
    if (refused) {
      allow_cudnn_attention(false);
      log_warning(str("cuDNN does not take rows of length ", batch.length,
                      " of this model: attention is FlashAttention's, or libtorch's own, from here "
                      "on (",
                      describe_failure(error).cause, ")"));
    }
  }
  // The first micro-batch puts the gradient, so nothing is left of the attempt.
  return accumulate_once(model, batch, own, micro_tokens, grad, loss_scale, graphs);
}

}  // namespace lmtrain
