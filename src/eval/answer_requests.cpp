#include "eval/answer_requests.h"

namespace lmtrain {
namespace {

constexpr size_t kTokensTogether = size_t{1} << 18;

}  // namespace

bool answer_requests(Llama& model, const ScoreRequests& requests, int64_t batch_tokens,
                     const KeepScoring& keep_going,
                     const std::function<void(const std::string& line)>& answer) {
  size_t request = 0, row = 0;  // the first ones without an answer
  while (request < requests.ends.size()) {
    size_t last = request, end = row;
    for (size_t tokens = 0; last < requests.ends.size() && tokens < kTokensTogether; ++last) {
      for (; end < requests.ends[last]; ++end) tokens += requests.rows[end].ids.size();
    }
    const auto scores =
        score_rows(model, std::span(requests.rows).subspan(row, end - row), batch_tokens,
                   [&](size_t done) { return keep_going(row + done); });
    if (!scores) return false;
    for (size_t begin = row; request < last; ++request) {
      const size_t next = requests.ends[request];
      answer(score_answer(scores->data() + (begin - row), scores->data() + (next - row)));
      begin = next;
    }
    row = end;
  }
  return true;
}

}  // namespace lmtrain
