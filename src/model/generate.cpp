#include "model/generate.h"

#include "base/error.h"
#include "base/random.h"
#include "device/torch_headers.h"

namespace lmtrain {
namespace {

int32_t sample(const at::Tensor& logits_V, const GenerateOptions& options, uint64_t index) {
  if (!logits_V.isfinite().all().item<bool>()) {
    throw Error(ErrorKind::kNumeric,
                "the model's output is not finite: its weights are damaged or diverged");
  }
  if (options.temperature <= 0) return static_cast<int32_t>(logits_V.argmax().item<int64_t>());
  const at::Tensor probabilities =
      at::softmax(logits_V.to(at::kDouble) / options.temperature, -1).cpu();
  const auto [sorted, order] = probabilities.sort(/*dim=*/-1, /*descending=*/true);
  const double* probability = sorted.data_ptr<double>();
  const int64_t* token = order.data_ptr<int64_t>();
  int64_t kept = 0;
  double total = 0;
  while (kept < sorted.numel() && (kept == 0 || total < options.top_p))
    total += probability[kept++];
  double point =
      random_uniform(static_cast<uint64_t>(options.seed), RandomStream::kSample, index) * total;
  for (int64_t i = 0; i < kept; ++i) {
    point -= probability[i];
    if (point < 0) return static_cast<int32_t>(token[i]);
  }
  return static_cast<int32_t>(token[kept - 1]);
}

}  // namespace

std::vector<int32_t> generate(Llama& model, const std::vector<int32_t>& prompt,
                              const GenerateOptions& options,
                              const std::function<bool(int32_t)>& on_token) {
  std::vector<int64_t> context(prompt.begin(), prompt.end());
  std::vector<int32_t> generated;
  for (int64_t i = 0; i < options.max_tokens; ++i) {
    const int64_t length =
        std::min<int64_t>(static_cast<int64_t>(context.size()), model.max_length());
    const at::Tensor ids = at::tensor(
        at::ArrayRef<int64_t>(context).slice(context.size() - static_cast<size_t>(length)));
    const at::Tensor logits = model.logits(ids.unsqueeze(0).to(model.device()));
    const int32_t token =
        sample(logits[0][length - 1].to(at::kFloat), options, static_cast<uint64_t>(i));
    if (token == options.stop_id) break;
    generated.push_back(token);
    context.push_back(token);
    if (!on_token(token)) break;
  }
  return generated;
}

}  // namespace lmtrain
