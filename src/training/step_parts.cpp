#include "training/step_parts.h"

#include <bit>

#include "base/error.h"
#include "base/text.h"
#include "device/torch_headers.h"
#include "training/step.h"

namespace lmtrain {

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
