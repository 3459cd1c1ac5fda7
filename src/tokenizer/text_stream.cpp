#include "tokenizer/text_stream.h"

#include <algorithm>
#include <string_view>

namespace lmtrain {
namespace {

// The most tokens that are decoded each time, and how many stay when the oldest are forgotten.
constexpr size_t kMostDecoded = 64;
constexpr size_t kKept = 16;

// The size of the text that no token can change any more. Decoders write a U+FFFD for each byte of
// an incomplete character, at most three.
size_t complete_size(std::string_view text) {
  constexpr std::string_view kReplacement = "\xEF\xBF\xBD";
  for (int i = 0; i < 3 && text.ends_with(kReplacement); ++i)
    text.remove_suffix(kReplacement.size());
  return text.size();
}

}  // namespace

TextStream::TextStream(const Tokenizer& tokenizer, std::vector<int32_t> prompt)
    : tokenizer_(tokenizer), window_(std::move(prompt)), given_(0) {
  const std::string text = tokenizer_.decode(window_);
  given_ = text.size();
  forget_oldest(text);
}

std::string TextStream::add(int32_t token) {
  window_.push_back(token);
  if (tokenizer_.is_in_run(token)) return "";  // the run may turn out to be malformed
  const std::string text = tokenizer_.decode(window_);
  std::string added = take(text, complete_size(text));
  forget_oldest(text);
  return added;
}

std::string TextStream::finish() {
  const std::string text = tokenizer_.decode(window_);
  return take(text, text.size());
}

std::string TextStream::take(const std::string& text, size_t end) {
  // A prompt that ends in half a character has less text once the other half has come.
  given_ = std::min(given_, text.size());
  if (end <= given_) return "";
  const size_t begin = given_;
  given_ = end;
  return text.substr(begin, end - begin);
}

void TextStream::forget_oldest(const std::string& text) {
  if (window_.size() < kMostDecoded) return;
  // The newest tokens must decode to the same text without the oldest: a first token may lose its
  // space, and several tokens may spell one character.
  std::vector<int32_t> newest(window_.end() - kKept, window_.end());
  const std::string tail = tokenizer_.decode(newest);
  if (tail.empty() || !text.ends_with(tail) || text.size() - tail.size() > given_) return;
  given_ -= text.size() - tail.size();
  window_ = std::move(newest);
}

std::string continued_text(const Tokenizer& tokenizer, const std::vector<int32_t>& prompt,
                           const std::vector<int32_t>& tokens) {
  TextStream stream(tokenizer, prompt);
  std::string text;
  for (const int32_t token : tokens) text += stream.add(token);
  return text + stream.finish();
}

}  // namespace lmtrain
