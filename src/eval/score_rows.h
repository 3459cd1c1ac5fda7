// Runs a Llama over scored rows (eval/scored_row.h). Rows of similar length go through the model
// together. Rows that differ only in their last token, such as the choices A, B, C of a question,
// go through it once. The head computes only the scored positions.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "eval/scored_row.h"
#include "model/llama.h"

namespace lmtrain {

// Is called before each batch with the number of rows that are scored, and returns whether to go
// on.
using KeepScoring = std::function<bool(size_t done)>;

// Returns the scores of the rows in their order; nothing if `keep_going` returns false. A row must
// have at most model.max_length() + 1 ids. A batch has at most `batch_tokens` positions, padding
// included, but at least one row. Computes in the model's own precision, but softmax and sums of
// products in fp32 (Fp32Sums of ops/matmul.h). Throws Error(kNumeric) if a log-probability is not
// finite.
std::optional<std::vector<RowScore>> score_rows(Llama& model, std::span<const ScoredRow> rows,
                                                int64_t batch_tokens,
                                                const KeepScoring& keep_going);

}  // namespace lmtrain
