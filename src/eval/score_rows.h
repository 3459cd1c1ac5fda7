// Runs a Llama over scored rows (eval/scored_row.h). Rows of like length go through the model
// together, and rows that differ in their last token alone, as the choices A, B, C of a question
// do, go through it once. The head computes the scored positions only.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "eval/scored_row.h"
#include "model/llama.h"

namespace lmtrain {

// It is called before each batch with the number of rows that have their answers, and says whether
// to go on.
using KeepScoring = std::function<bool(size_t done)>;

// Returns the answers to the rows in their order; nothing when `keep_going` returns false. A row
// must have at most the model's max_length() inputs. A batch has at most `batch_tokens` positions,
// padding included, but at least one row. Computes in the model's own precision, but the softmax
// and the sums of products in fp32 (Fp32Sums of ops/matmul.h). Throws Error(kNumeric) when a
// log-probability is not finite.
std::optional<std::vector<RowScore>> score_rows(Llama& model, std::span<const ScoredRow> rows,
                                                int64_t batch_tokens,
                                                const KeepScoring& keep_going);

}  // namespace lmtrain
