// Answers the requests of `lmtrain eval --score` in their order, while the rows of many of them go
// through the model sorted by length.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "eval/score_request.h"
#include "eval/score_rows.h"
#include "model/llama.h"

namespace lmtrain {

// Calls `answer` with the line of each request (score_answer of eval/score_request.h). Requests
// are taken together until they have some 260,000 tokens, so that the first answers come soon.
// `keep_going` is told how many rows of all requests are done. Returns false as soon as
// `keep_going` does; then only the requests that were taken together earlier are answered. Throws
// the errors of score_rows().
bool answer_requests(Llama& model, const ScoreRequests& requests, int64_t batch_tokens,
                     const KeepScoring& keep_going,
                     const std::function<void(const std::string& line)>& answer);

}  // namespace lmtrain
