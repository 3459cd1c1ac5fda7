#include "train/longest_shape.h"

#include "base/error.h"
#include "base/text.h"
#include "ops/torch_headers.h"
#include "train/failure.h"
#include "train/step.h"

namespace lmtrain {

void try_longest_shape(Llama& model, int64_t length, const SequenceConfig& sequence,
                       const BatchConfig& config, const at::Tensor& grad) {
  const int64_t rows = std::max<int64_t>(1, std::min(*config.micro_tokens, config.tokens) / length);
  try {
    Batch batch;
    batch.length = length;
    batch.rows = rows;
    const auto num_positions = static_cast<size_t>(rows * length);
    batch.inputs.assign(num_positions, 0);
    batch.targets.assign(num_positions, kNoTarget);
    if (sequence.batching == "pack") {
      for (int64_t row = 0; row < rows; ++row)
        batch.segments.push_back(static_cast<int32_t>(row * length));
    }
    accumulate_batch(model, batch, *config.micro_tokens, grad);
  } catch (const std::exception& error) {
    const Failure failure = describe_failure(error);
    if (failure.kind != ErrorKind::kMemory) throw;
    throw Error(ErrorKind::kMemory,
                str("a micro-batch of ", counted(rows, "row"), " of length ", length,
                    ", the longest of this run, was tried before the first step and does not fit "
                    "(batch.micro_tokens is ",
                    *config.micro_tokens, "): ", failure.message));
  }
}

}  // namespace lmtrain
