#include "eval/score_request.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/stop.h"
#include "base/text.h"
#include "eval/json_record.h"
#include "eval/white_space.h"

namespace lmtrain {
namespace {

// Cuts `ids` to its last `most` tokens.
void keep_last(std::vector<int32_t>& ids, int64_t most) {
  const auto size = static_cast<int64_t>(ids.size());
  if (size > most) ids.erase(ids.begin(), ids.begin() + (size - most));
}

}  // namespace

ScoredRow row_of_pair(const ModelText& model, std::string_view context,
                      std::string_view continuation) {
  ScoredRow row;
  std::vector<int32_t> scored;
  if (context.empty()) {
    scored = model.tokenizer.encode(continuation);
    const int32_t prefix = model.prefix_id();
    row.ids = {prefix};
    if (!scored.empty() && scored.front() == prefix) scored.erase(scored.begin());
  } else {
    std::string whole(context);
    whole += continuation;
    const std::string_view stripped = without_space_behind(context);
    row.ids = model.encode(stripped);
    scored = model.encode(whole);
    scored.erase(scored.begin(),
                 scored.begin() + static_cast<ptrdiff_t>(std::min(row.ids.size(), scored.size())));
    // lm-eval has no answer for a context of white space alone where no BOS is added.
    if (row.ids.empty()) row.ids = {model.prefix_id()};
  }
  row.num_scored = static_cast<int64_t>(scored.size());
  if (scored.empty()) {
    throw Error(ErrorKind::kData,
                "the continuation has no token of its own: it is empty, or the tokenizer joins it "
                "with the context into one token; give a longer one");
  }
  if (row.num_scored > model.max_length) {
    throw Error(ErrorKind::kData,
                str("the continuation has ", row.num_scored, " tokens, and the model takes ",
                    model.max_length, " at once; shorten it, or ask for it as \"text\""));
  }
  row.ids.insert(row.ids.end(), scored.begin(), scored.end());
  keep_last(row.ids, model.max_length + 1);
  return row;
}

std::vector<ScoredRow> rows_of_text(const ModelText& model, std::string_view text) {
  std::vector<int32_t> ids = {model.prefix_id()};
  const std::vector<int32_t> encoded = model.encode(text);
  ids.insert(ids.end(), encoded.begin(), encoded.end());
  std::vector<ScoredRow> rows;
  const auto last = static_cast<int64_t>(ids.size()) - 1;
  for (int64_t scored = 0; scored < last;) {  // so many tokens behind the first one
    const int64_t count = std::min(model.max_length, last - scored);
    const int64_t end = scored + count + 1;
    // Only a text of more than one window has a window with more context than one token.
    const int64_t begin = std::max<int64_t>(0, end - (model.max_length + 1));
    rows.push_back({{ids.begin() + begin, ids.begin() + end}, count});
    scored += count;
  }
  return rows;
}

ScoreRequests read_score_requests(const std::filesystem::path& path, const ModelText& model) {
  ScoreRequests requests;
  for_each_record(path, [&](const JsonRecord& record) {
    throw_if_stopped();
    const bool is_text = record.has("text");
    if (is_text == (record.has("context") || record.has("continuation"))) {
      record.fail(
          "a request has the fields \"context\" and \"continuation\", or the field \"text\"");
    }
    try {
      if (is_text) {
        for (ScoredRow& row : rows_of_text(model, record.text("text")))
          requests.rows.push_back(std::move(row));
      } else {
        const std::string context = record.text("context");
        requests.rows.push_back(row_of_pair(model, context, record.text("continuation")));
      }
    } catch (const Error& error) {
      const std::string message = error.what();
      if (error.kind() != ErrorKind::kData || message.starts_with(record.where())) throw;
      record.fail(message);
    }
    requests.ends.push_back(requests.rows.size());
  });
  return requests;
}

std::string score_answer(const RowScore* first, const RowScore* end) {
  double sum = 0;
  bool is_greedy = true;
  size_t tokens = 0;
  for (const RowScore* score = first; score != end; ++score) {
    sum += log_probability(*score, static_cast<int64_t>(score->log_probabilities.size()));
    is_greedy = is_greedy && score->is_greedy;
    tokens += score->log_probabilities.size();
  }
  const nlohmann::ordered_json answer = {
      {"logprob", sum}, {"is_greedy", is_greedy}, {"tokens", tokens}};
  return answer.dump();
}

}  // namespace lmtrain
