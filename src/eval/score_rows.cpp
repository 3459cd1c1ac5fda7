#include "eval/score_rows.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "device/torch_headers.h"
#include "ops/matmul.h"

namespace lmtrain {
namespace {

int64_t num_inputs(const ScoredRow& row) { return static_cast<int64_t>(row.ids.size()) - 1; }

bool same_inputs(const ScoredRow& a, const ScoredRow& b) {
  return a.ids.size() == b.ids.size() && std::equal(a.ids.begin(), a.ids.end() - 1, b.ids.begin());
}

// The longest rows come first, so that memory which does not suffice is known at once; rows with
// the same inputs are side by side.
std::vector<size_t> order_of(std::span<const ScoredRow> rows) {
  std::vector<size_t> order(rows.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    if (rows[a].ids.size() != rows[b].ids.size()) return rows[a].ids.size() > rows[b].ids.size();
    return std::tie(rows[a].ids, a) < std::tie(rows[b].ids, b);
  });
  return order;
}

// Holds rows that are scored at once, and for each row the index of its input row: rows with the
// same inputs share one.
struct RowBatch {
  std::vector<const ScoredRow*> rows;
  std::vector<int64_t> inputs;  // of the same size
  int64_t num_inputs = 0;
};

// Takes rows from order[next] on.
RowBatch next_batch(std::span<const ScoredRow> rows, const std::vector<size_t>& order, size_t next,
                    int64_t batch_tokens) {
  RowBatch batch;
  const int64_t length = num_inputs(rows[order[next]]);
  const int64_t most = std::max<int64_t>(1, batch_tokens / length);
  for (; next < order.size(); ++next) {
    const ScoredRow& row = rows[order[next]];
    if (batch.rows.empty() || !same_inputs(*batch.rows.back(), row)) {
      if (batch.num_inputs == most) break;
      ++batch.num_inputs;
    }
    batch.rows.push_back(&row);
    batch.inputs.push_back(batch.num_inputs - 1);
  }
  return batch;
}

at::Tensor inputs_of(const RowBatch& batch) {
  const int64_t length = num_inputs(*batch.rows.front());
  at::Tensor ids_BT = at::zeros({batch.num_inputs, length}, at::kLong);
  for (size_t i = 0; i < batch.rows.size(); ++i) {
    const std::vector<int32_t>& ids = batch.rows[i]->ids;
    std::copy(ids.begin(), ids.end() - 1, ids_BT.data_ptr<int64_t>() + batch.inputs[i] * length);
  }
  return ids_BT;
}

// The scored tokens of a batch, row after row, and their flattened positions.
struct ScoredPositions {
  std::vector<int64_t> positions, targets;
};

ScoredPositions scored_positions(const RowBatch& batch) {
  ScoredPositions scored;
  const int64_t length = num_inputs(*batch.rows.front());
  for (size_t i = 0; i < batch.rows.size(); ++i) {
    const ScoredRow& row = *batch.rows[i];
    const int64_t end = batch.inputs[i] * length + num_inputs(row);
    for (int64_t k = row.num_scored; k > 0; --k) {
      scored.positions.push_back(end - k);
      scored.targets.push_back(row.ids[row.ids.size() - static_cast<size_t>(k)]);
    }
  }
  return scored;
}

int64_t vocab_size(const Llama& model) {
  for (const WorkingSpec& spec : model.parameters().layout().working()) {
    if (spec.key == "lm_head") return spec.shape.front();
  }
  throw Error(ErrorKind::kInternal, "a model without a head");
}

// Logits of so many numbers are computed at once: 64 MiB in fp32.
constexpr int64_t kMostLogits = int64_t{1} << 24;

struct PositionScores {
  std::vector<float> log_probabilities;
  std::vector<int64_t> likeliest;
};

PositionScores position_scores(Llama& model, const at::Tensor& states_ND,
                               const ScoredPositions& scored) {
  PositionScores scores;
  const auto count = static_cast<int64_t>(scored.positions.size());
  const int64_t most = std::max<int64_t>(1, kMostLogits / vocab_size(model));
  for (int64_t begin = 0; begin < count; begin += most) {
    const int64_t size = std::min(most, count - begin);
    const auto part = [&](const std::vector<int64_t>& values) {
      return at::tensor(at::ArrayRef<int64_t>(values).slice(static_cast<size_t>(begin),
                                                            static_cast<size_t>(size)))
          .to(model.device());
    };
    const at::Tensor logits_NV =
        model.head(states_ND.index_select(0, part(scored.positions))).to(at::kFloat);
    const at::Tensor likeliest = logits_NV.argmax(-1).cpu();
    const at::Tensor chosen = at::log_softmax(logits_NV, -1)
                                  .gather(1, part(scored.targets).unsqueeze(1))
                                  .squeeze(1)
                                  .cpu();
    const float* values = chosen.data_ptr<float>();
    scores.log_probabilities.insert(scores.log_probabilities.end(), values, values + size);
    const int64_t* tokens = likeliest.data_ptr<int64_t>();
    scores.likeliest.insert(scores.likeliest.end(), tokens, tokens + size);
  }
  for (const float value : scores.log_probabilities) {
    if (std::isfinite(value)) continue;
    throw Error(ErrorKind::kNumeric,
                "the model's output is not finite: its weights are damaged or diverged");
  }
  return scores;
}

// Gives each row of the batch its part of `computed`; scores[i] belongs to row i.
void hand_out(const RowBatch& batch, const ScoredPositions& scored, const PositionScores& computed,
              const std::vector<RowScore*>& scores) {
  size_t next = 0;
  for (size_t i = 0; i < batch.rows.size(); ++i) {
    const size_t end = next + static_cast<size_t>(batch.rows[i]->num_scored);
    RowScore& score = *scores[i];
    for (; next < end; ++next) {
      score.log_probabilities.push_back(computed.log_probabilities[next]);
      score.is_greedy = score.is_greedy && computed.likeliest[next] == scored.targets[next];
    }
  }
}

}  // namespace

std::optional<std::vector<RowScore>> score_rows(Llama& model, std::span<const ScoredRow> rows,
                                                int64_t batch_tokens,
                                                const KeepScoring& keep_going) {
  const Fp32Sums fp32_sums;
  std::vector<RowScore> scores(rows.size());
  const std::vector<size_t> order = order_of(rows);
  for (size_t next = 0; next < order.size();) {
    if (!keep_going(next)) return std::nullopt;
    const RowBatch batch = next_batch(rows, order, next, batch_tokens);
    const at::Tensor states_BTD = model.states(inputs_of(batch).to(model.device()));
    const ScoredPositions scored = scored_positions(batch);
    std::vector<RowScore*> answers;
    for (size_t i = 0; i < batch.rows.size(); ++i) answers.push_back(&scores[order[next + i]]);
    hand_out(batch, scored, position_scores(model, states_BTD.flatten(0, 1), scored), answers);
    next += batch.rows.size();
  }
  return scores;
}

}  // namespace lmtrain
