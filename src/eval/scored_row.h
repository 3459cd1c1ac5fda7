// A ScoredRow is a row of tokens whose last tokens are scored: each gets its log-probability after
// all tokens before it. Requests and tasks ask a model such rows.
#pragma once

#include <cstdint>
#include <vector>

namespace lmtrain {

struct ScoredRow {
  std::vector<int32_t> ids;  // at least two; the last is no input of the model
  int64_t num_scored = 0;    // from 1 to ids.size() - 1
};

// The score of a row.
struct RowScore {
  std::vector<float> log_probabilities;  // of the scored tokens, in nats
  bool is_greedy = true;                 // each of them is the likeliest token of the vocabulary
};

// Returns the sum of the last `count` log-probabilities, in fp64. Requires at least `count` of
// them.
inline double log_probability(const RowScore& score, int64_t count) {
  double sum = 0;
  for (size_t i = score.log_probabilities.size() - static_cast<size_t>(count);
       i < score.log_probabilities.size(); ++i) {
    sum += score.log_probabilities[i];
  }
  return sum;
}

}  // namespace lmtrain
