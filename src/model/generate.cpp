#include "model/generate.h"

#include <numeric>

#include "base/error.h"
#include "base/random.h"
#include "device/torch_headers.h"

namespace lmtrain {
namespace {

using OnToken = std::function<bool(size_t prompt, int32_t token)>;

// A prompt that is being continued. The cache's row i belongs to the list's row i.
struct Row {
  size_t prompt;           // its index
  size_t prompt_length;    // tokens
  std::set<int32_t> seen;  // tokens of prompt and text; kept where repetition has a penalty
  Continuation text;
};

void penalize(float* logits, const std::set<int32_t>& seen, double penalty) {
  const auto factor = static_cast<float>(penalty);
  for (const int32_t id : seen)
    logits[id] = logits[id] < 0 ? logits[id] * factor : logits[id] / factor;
}

// Draws from logits_V, fp32 in host memory; `index` counts the tokens of the text.
int32_t sample(const at::Tensor& logits_V, const GenerateOptions& options, uint64_t seed,
               uint64_t index) {
  if (options.temperature <= 0) return static_cast<int32_t>(logits_V.argmax().item<int64_t>());
  // Scores are at most 0 before the division, so that a low temperature overflows to -inf, not inf.
  const at::Tensor scores = logits_V.to(at::kDouble);
  const at::Tensor probabilities = at::softmax((scores - scores.max()) / options.temperature, -1);
  const auto [sorted, order] = probabilities.sort(/*dim=*/-1, /*descending=*/true);
  const double* probability = sorted.data_ptr<double>();
  const int64_t* token = order.data_ptr<int64_t>();
  int64_t allowed = sorted.numel();
  double nucleus = options.top_p;
  if (options.top_k > 0 && options.top_k < allowed) {
    allowed = options.top_k;
    nucleus *= std::accumulate(probability, probability + allowed, 0.0);
  }
  int64_t kept = 0;
  double total = 0;
  while (kept < allowed && (kept == 0 || total < nucleus)) total += probability[kept++];
  double point = random_uniform(seed, RandomStream::kSample, index) * total;
  for (int64_t i = 0; i < kept; ++i) {
    point -= probability[i];
    if (point < 0) return static_cast<int32_t>(token[i]);
  }
  return static_cast<int32_t>(token[kept - 1]);
}

// Several prompts under way.
class PromptBatch {
 public:
  PromptBatch(Llama& model, const GenerateOptions& options, int64_t rows, const OnToken& on_token)
      : model_(model), options_(options), on_token_(on_token), cache_(model.new_cache(rows)) {}

  bool empty() const { return rows_.empty(); }
  bool stopped() const { return stopped_; }  // on_token has returned false
  bool full() const { return static_cast<int64_t>(rows_.size()) == cache_.rows(); }

  // Takes a prompt up and draws its first token. Calls on_end if that is its end.
  template <class OnEnd>
  void begin(size_t index, const std::vector<int32_t>& prompt, const OnEnd& on_end) {
    Row row{index, prompt.size(), {}, {}};
    if (options_.repetition_penalty != 1) row.seen.insert(prompt.begin(), prompt.end());
    if (options_.max_tokens <= 0) return on_end(index, std::move(row.text));
    const auto row_index = static_cast<int64_t>(rows_.size());
    const at::Tensor ids = at::tensor(std::vector<int64_t>(prompt.begin(), prompt.end()));
    const at::Tensor logits = model_.begin_row(ids.to(model_.device()), cache_, row_index);
    if (draw(row, on_host(logits))) return on_end(index, std::move(row.text));
    rows_.push_back(std::move(row));
  }

  // Draws a token for every prompt. Calls on_end for each prompt that ends.
  template <class OnEnd>
  void extend(const OnEnd& on_end) {
    std::vector<int64_t> ids;
    for (const Row& row : rows_) ids.push_back(row.text.tokens.back());
    const at::Tensor logits_BV =
        on_host(model_.extend_rows(at::tensor(ids).to(model_.device()), cache_));
    std::vector<size_t> ended;
    for (size_t i = 0; i < rows_.size() && !stopped_; ++i) {
      if (draw(rows_[i], logits_BV[static_cast<int64_t>(i)])) ended.push_back(i);
    }
    for (const size_t i : ended) on_end(rows_[i].prompt, std::move(rows_[i].text));
    // Rows stay without gaps: the last row takes the place of one that has ended.
    for (auto i = ended.rbegin(); i != ended.rend(); ++i) {
      const size_t last = rows_.size() - 1;
      if (*i != last) {
        cache_.copy_row(static_cast<int64_t>(last), static_cast<int64_t>(*i));
        rows_[*i] = std::move(rows_[last]);
      }
      rows_.pop_back();
    }
  }

 private:
  static at::Tensor on_host(const at::Tensor& logits) {
    at::Tensor host = logits.to(at::kFloat).cpu().contiguous();
    if (host.isfinite().all().item<bool>()) return host;
    throw Error(ErrorKind::kNumeric,
                "the model's output is not finite: its weights are damaged or diverged");
  }

  // Adds the token drawn from logits_V, which it may overwrite, to the text; returns whether that
  // ends the text.
  bool draw(Row& row, const at::Tensor& logits_V) {
    Continuation& text = row.text;
    if (options_.repetition_penalty != 1)
      penalize(logits_V.data_ptr<float>(), row.seen, options_.repetition_penalty);
    const int64_t num_ids = options_.num_ids > 0 ? options_.num_ids : logits_V.numel();
    const int32_t token =
        sample(logits_V.narrow(0, 0, num_ids), options_,
               static_cast<uint64_t>(options_.seed) + row.prompt, text.tokens.size());
    if (options_.stop_ids.contains(token)) {
      text.end = GenerateEnd::kStopToken;
      return true;
    }
    text.tokens.push_back(token);
    if (options_.repetition_penalty != 1) row.seen.insert(token);
    const size_t tokens = text.tokens.size();
    if (!on_token_(row.prompt, token)) {
      text.end = GenerateEnd::kCaller;
      stopped_ = true;
    } else if (tokens >= static_cast<size_t>(options_.max_tokens)) {
      text.end = GenerateEnd::kMaxTokens;
    } else if (row.prompt_length + tokens > static_cast<size_t>(model_.max_length())) {
      text.end = GenerateEnd::kMaxLength;
    } else {
      return false;
    }
    return true;
  }

  Llama& model_;
  const GenerateOptions& options_;
  const OnToken& on_token_;
  KeyValueCache cache_;
  std::vector<Row> rows_;
  bool stopped_ = false;
};

}  // namespace

const char* end_name(GenerateEnd end) {
  switch (end) {
    case GenerateEnd::kStopToken:
      return "eos";
    case GenerateEnd::kMaxTokens:
      return "max_tokens";
    case GenerateEnd::kMaxLength:
      return "max_length";
    case GenerateEnd::kCaller:
      break;
  }
  return "interrupted";
}

void generate_all(Llama& model, const std::vector<std::vector<int32_t>>& prompts, int64_t rows,
                  const GenerateOptions& options, const OnToken& on_token,
                  const std::function<void(size_t prompt, Continuation)>& on_end) {
  const auto most = static_cast<int64_t>(std::max<size_t>(prompts.size(), 1));
  PromptBatch batch(model, options, std::min(rows, most), on_token);
  size_t next = 0;
  while (!batch.stopped()) {
    if (next < prompts.size() && !batch.full()) {
      batch.begin(next, prompts[next], on_end);
      ++next;
    } else if (!batch.empty()) {
      batch.extend(on_end);
    } else {
      return;
    }
  }
}

Continuation generate(Llama& model, const std::vector<int32_t>& prompt,
                      const GenerateOptions& options,
                      const std::function<bool(int32_t)>& on_token) {
  Continuation result;
  generate_all(
      model, {prompt}, 1, options, [&](size_t, int32_t token) { return on_token(token); },
      [&](size_t, Continuation text) { result = std::move(text); });
  return result;
}

}  // namespace lmtrain
