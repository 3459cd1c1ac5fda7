#include "run/shared/overlapped_sum.h"

#include <algorithm>
#include <map>

#include "base/activities.h"
#include "device/torch_headers.h"
#include "model/weight_pieces.h"

namespace lmtrain {

std::vector<GradientChunk> chunks_of(const ParameterLayout& layout,
                                     const std::vector<ElementRange>& needed, int count,
                                     int64_t least) {
  std::map<int64_t, int64_t> sizes;  // of the working tensors, by where they begin
  for (const WorkingSpec& spec : layout.working()) {
    int64_t& size = sizes[spec.offset];
    size = 1;
    for (const int64_t side : spec.shape) size *= side;
  }

  std::vector<ElementRange> parts;
  const std::vector<WeightPiece> pieces = weight_pieces(layout);
  // An untied head lies before the layers. A tied one is finished with the embeddings.
  size_t end = pieces.size();
  if (pieces.back().first < pieces[1].first) {
    --end;
    parts.push_back({pieces[end].first, pieces[end].size});
  }
  while (end > 1) {
    ElementRange layers{0, 0};
    do {
      --end;
      layers = {pieces[end].first, layers.size + pieces[end].size};
    } while (end > 1 && layers.size < least);
    parts.push_back(layers);
  }
  parts.push_back({pieces.front().first, pieces.front().size});
  parts.push_back({layout.decayed_size(), layout.flat_size() - layout.decayed_size()});

  std::vector<GradientChunk> chunks;
  for (const ElementRange& part : parts) {
    GradientChunk chunk{part, 0, {}};
    for (const auto& [offset, size] : sizes)
      if (offset >= part.first && offset < part.end()) chunk.numel += size;
    if (needed.empty()) {
      chunk.ranges = even_ranges(part.size, count);
      for (ElementRange& range : chunk.ranges) range.first += part.first;
    }
    for (const ElementRange& range : needed) chunk.ranges.push_back(common(range, part));
    chunks.push_back(std::move(chunk));
  }
  return chunks;
}

OverlappedSum::OverlappedSum(const std::vector<RangeExchange*>& exchanges,
                             std::vector<GradientChunk> chunks, bool gathers)
    : chunks_(std::make_shared<const std::vector<GradientChunk>>(std::move(chunks))),
      gathers_(gathers) {
  for (RangeExchange* const exchange : exchanges)
    lanes_.push_back({exchange, std::make_unique<WorkLine>()});
}

void OverlappedSum::begin(const at::Tensor& gradient) {
  gradient_ = gradient;
  unfinished_.clear();
  for (const GradientChunk& chunk : *chunks_) unfinished_.push_back(chunk.numel);
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
    Lane& lane = lanes_[next_ % lanes_.size()];
    lane.last = lane.line->add([&exchange = *lane.exchange, chunks = chunks_, gathers = gathers_,
                                gradient = gradient_, chunk = next_] {
      const Activity summing("summing gradients over the processes");
      const std::vector<ElementRange>& ranges = (*chunks)[chunk].ranges;
      exchange.sum_ranges(gradient, ranges);
      if (gathers) exchange.gather_ranges(gradient, ranges);
    });
  }
}

void OverlappedSum::wait() {
  for (const Lane& lane : lanes_) lane.line->wait(lane.last);
}

}  // namespace lmtrain
