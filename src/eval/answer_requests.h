// Answers the requests of `lmtrain eval --score` in their order, while their rows go through the
// model sorted by length.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "eval/score_request.h"
#include "eval/score_rows.h"
#include "model/llama.h"

namespace lmtrain {

// Calls `answer` with the line of each request (score_answer of eval/score_request.h), in order. It
// scores requests in groups of some 260,000 tokens, so that the first answers come soon.
// `keep_going` gets the number of scored rows of all requests; if it returns false, this group
// stays without answers, and answer_requests() returns false. `batch_tokens` and errors are as for
// score_rows().
bool answer_requests(Llama& model, const ScoreRequests& requests, int64_t batch_tokens,
                     const KeepScoring& keep_going,
                     const std::function<void(const std::string& line)>& answer);

}  // namespace lmtrain
