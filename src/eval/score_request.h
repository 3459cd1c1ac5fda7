// The requests of `lmtrain eval --score`, as EleutherAI's lm-evaluation-harness asks them of its
// model class HFLM: log-likelihoods of a continuation after a context, or of a text alone
// ("rolling"). The rows that are made here are those that lm-eval 0.4 gives to the model, so the
// answers are its answers.
//
//  - Pair: white space at the end of the context moves to the continuation; the context, and the
//    two together, are encoded after BOS where the model adds it, and the scored tokens are those
//    of the whole beyond the context's number of tokens. An empty context is BOS, or EOS where the
//    tokenizer has no BOS; a continuation that begins with this token has it as its context. Of
//    more than max_length + 1 tokens the last are taken.
//  - Text: every token is scored, BOS too where the model adds it, in windows of max_length tokens
//    (get_rolling_token_windows and make_disjoint_window of lm_eval/utils.py). The first window
//    begins after the token that stands for an empty context, each other one after the last token
//    of the window before it. The last window is filled with context on its left.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "eval/model_text.h"
#include "eval/scored_row.h"

namespace lmtrain {

// Returns the row of a pair. Throws Error(kData) where the continuation has no token, or more than
// max_length; the message does not say where.
ScoredRow row_of_pair(const ModelText& model, std::string_view context,
                      std::string_view continuation);
// Returns the rows of a text. A text without tokens has no rows.
std::vector<ScoredRow> rows_of_text(const ModelText& model, std::string_view text);

// The rows of all requests of a file. The rows of one request are side by side.
struct ScoreRequests {
  std::vector<ScoredRow> rows;
  std::vector<size_t> ends;  // ends[i] is where the rows of request i end
};
// Reads a file of lines {"context": ..., "continuation": ...} or {"text": ...}; other fields are
// not looked at. Throws the errors of for_each_record() (eval/json_record.h), Error(kData) with
// file and line for a line that is no request or cannot be answered, and StopRequested
// (base/stop.h) when a signal has asked to stop.
ScoreRequests read_score_requests(const std::filesystem::path& path, const ModelText& model);

// Returns the line that answers a request, without newline, from the answers to its rows:
// {"logprob":-9.5,"is_greedy":false,"tokens":3}. A request without rows has 0, true and 0.
std::string score_answer(const RowScore* first, const RowScore* end);

}  // namespace lmtrain
