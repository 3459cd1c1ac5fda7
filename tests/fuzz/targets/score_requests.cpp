// The requests of `eval --score`. The tokenizer has a token for each letter.
#include "eval/score_request.h"
#include "fuzz/target.h"
#include "tokenizer/model_proto.h"

namespace lmtrain::fuzzing {

LMTRAIN_FUZZ_TARGET(score_requests) {
  static const Tokenizer tokenizer(
      bpe_model({.merges = {"th", "the"}, .characters = {"t", "h", "e", "a", "b"}}, true, 1.0),
      "tokenizer.model");
  const ModelText model{.tokenizer = tokenizer, .add_bos = true, .max_length = 8};
  const std::filesystem::path path = write_scratch("requests.jsonl", input);
  accepts([&] {
    const ScoreRequests requests = read_score_requests(path, model);
    size_t begin = 0;
    for (const size_t end : requests.ends) {
      require(begin <= end && end <= requests.rows.size(), "rows of no request");
      begin = end;
    }
    for (const ScoredRow& row : requests.rows) {
      require(row.num_scored >= 1 && row.num_scored < static_cast<int64_t>(row.ids.size()),
              "a row scores what it lacks");
      for (const int32_t id : row.ids)
        require(id >= 0 && id < tokenizer.vocab_size(), "an id outside the vocabulary");
    }
  });
}

}  // namespace lmtrain::fuzzing
