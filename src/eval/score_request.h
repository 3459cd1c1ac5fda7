// The requests of `lmtrain eval --score`, as EleutherAI's lm-evaluation-harness asks them of its
// model class HFLM: the log-likelihood of a continuation after a context, or of a text alone
// ("rolling"). The rows are the rows that lm-eval 0.4 gives to the model, so the answers are its
// answers.
//
//  - Pair: white space at the end of the context moves to the continuation. The context, and both
//    together, are encoded, after BOS if the model adds it; the tokens of both beyond the number of
//    the context's tokens are scored. An empty context is prefix_id() of eval/model_text.h; a
//    continuation that begins with this token has it as its context. A row of more than
//    max_length + 1 tokens keeps the last ones.
//  - Text: every token is scored, also a BOS that the model adds, in windows of max_length tokens
//    (get_rolling_token_windows and make_disjoint_window of lm_eval/utils.py). Before the first
//    window stands prefix_id(), before each other one the last token of the window before it. The
//    last window is filled with context on its left.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "eval/model_text.h"
#include "eval/scored_row.h"

namespace lmtrain {

// Returns the row of a pair. Throws the error of prefix_id(), and Error(kData) if the continuation
// has no token, or more than max_length; the caller adds the place to the message.
ScoredRow row_of_pair(const ModelText& model, std::string_view context,
                      std::string_view continuation);
// Returns the rows of a text; none for a text without tokens. Throws the error of prefix_id().
std::vector<ScoredRow> rows_of_text(const ModelText& model, std::string_view text);

// Holds the rows of all requests of a file. The rows of one request are neighbours.
struct ScoreRequests {
  std::vector<ScoredRow> rows;
  std::vector<size_t> ends;  // the rows of request i end before rows[ends[i]]
};
// Reads a file of lines {"context": ..., "continuation": ...} or {"text": ...}; ignores other
// fields. A text without tokens has no rows. Throws the errors of for_each_record()
// (eval/json_record.h), and:
//   Error(kData)   a line is no request, or has an error of row_of_pair() or rows_of_text(); the
//                  message names file and line
//   StopRequested  on a signal (base/stop.h)
ScoreRequests read_score_requests(const std::filesystem::path& path, const ModelText& model);

// Returns the line that answers a request, without newline, from the scores [first, end) of its
// rows: {"logprob":-9.5,"is_greedy":false,"tokens":3}. A request without rows has 0, true and 0.
std::string score_answer(const RowScore* first, const RowScore* end);

}  // namespace lmtrain
