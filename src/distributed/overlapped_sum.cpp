#include "distributed/overlapped_sum.h"

#include <algorithm>

#include "base/activities.h"
#include "device/torch_headers.h"

namespace lmtrain {

OverlappedSum::OverlappedSum(ExchangeLines& lines, const ParameterLayout& layout,
                             std::vector<DividedRange> chunks, bool gathers)
    : lines_(lines),
      chunks_(std::make_shared<const std::vector<DividedRange>>(std::move(chunks))),
      gathers_(gathers) {
  for (const DividedRange& chunk : *chunks_) {
    int64_t& numel = numels_.emplace_back(0);
    for (const ParameterSpec& spec : layout.parameters())
      numel += common(chunk.elements, {spec.offset, spec.numel()}).size;
  }
}

void OverlappedSum::begin(const at::Tensor& gradient) {
  gradient_ = gradient;
  unfinished_ = numels_;
  next_ = 0;
  has_finished_any_ = false;
}

void OverlappedSum::finish(int64_t first, int64_t size) {
  has_finished_any_ = true;
  for (size_t i = 0; i < chunks_->size(); ++i)
    unfinished_[i] -= common((*chunks_)[i].elements, {first, size}).size;
  sum_finished();
}

void OverlappedSum::finish_all() {
  has_finished_any_ = true;
  std::fill(unfinished_.begin(), unfinished_.end(), 0);
  sum_finished();
}

void OverlappedSum::sum_finished() {
  for (; next_ < chunks_->size() && unfinished_[next_] <= 0; ++next_) {
    lines_.add(next_, [chunks = chunks_, gathers = gathers_, gradient = gradient_,
                       chunk = next_](RangeExchange& exchange) {
      const Activity summing("summing gradients over the processes");
      const std::vector<ElementRange>& ranges = (*chunks)[chunk].ranges;
      exchange.sum_ranges(gradient, ranges);
      if (gathers) exchange.gather_ranges(gradient, ranges);
    });
  }
}

void OverlappedSum::wait() { lines_.wait(); }

}  // namespace lmtrain
