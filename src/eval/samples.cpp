#include "eval/samples.h"

#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "base/error.h"
#include "base/text.h"
#include "base/utf8.h"
#include "tokenizer/text_stream.h"

namespace lmtrain {
namespace {

// Returns nothing if the model's output is not finite: the trainer decides what becomes of such
// weights.
std::optional<Continuation> continuation_of(Llama& model, const std::vector<int32_t>& prompt,
                                            const GenerateOptions& options,
                                            const std::function<bool()>& keep_going) {
  try {
    return generate(model, prompt, options, [&](int32_t /*token*/) { return keep_going(); });
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kNumeric) throw;
    return std::nullopt;
  }
}

std::string in_quotes(const std::string& text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace

SampleWriter::SampleWriter(const Config& config, Tokenizer tokenizer)
    : tokenizer_(std::move(tokenizer)) {
  prompts_ = config.log.samples->prompts;
  options_.max_tokens = config.log.samples->max_tokens;
  options_.temperature = 0;
  options_.num_ids = tokenizer_.vocab_size();
  options_.stop_ids = {tokenizer_.eos_id()};
  const int64_t positions = config.sequence.max_length;
  for (size_t i = 0; i < prompts_.size(); ++i) {
    ids_.push_back(tokenizer_.encode_prompt(prompts_[i], config.tokenizer.add_bos.value_or(true)));
    const auto length = static_cast<int64_t>(ids_.back().size());
    if (length <= positions) continue;
    throw Error(ErrorKind::kConfig, str("/log/samples/prompts/", i, " (", quote(prompts_[i]),
                                        ") has ", length, " tokens, and the model has ", positions,
                                        " positions (sequence.max_length); give a shorter prompt"));
  }
}

std::vector<SampledText> SampleWriter::write(Llama& model,
                                             const std::function<bool()>& keep_going) const {
  std::vector<SampledText> samples;
  for (size_t i = 0; i < prompts_.size(); ++i) {
    const auto text = continuation_of(model, ids_[i], options_, keep_going);
    if (!text || text->end == GenerateEnd::kCaller) break;
    samples.push_back({prompts_[i], continued_text(tokenizer_, ids_[i], text->tokens),
                       static_cast<int64_t>(text->tokens.size()), text->end});
  }
  return samples;
}

std::string sample_line(const SampledText& sample, size_t most_bytes) {
  std::string prompt = sample.prompt;
  if (prompt.size() > most_bytes) {
    size_t begin = prompt.size() - most_bytes;
    while (begin < prompt.size() && is_utf8_continuation(prompt[begin])) ++begin;
    prompt = "..." + prompt.substr(begin);
  }
  std::string text = sample.text;
  if (text.size() > most_bytes)
    text = text.substr(0, valid_utf8_prefix(text.substr(0, most_bytes))) + "...";
  return str(in_quotes(prompt), " > ", in_quotes(text));
}

}  // namespace lmtrain
