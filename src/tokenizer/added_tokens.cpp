#include "tokenizer/added_tokens.h"

#include <algorithm>

#include "base/utf8.h"

namespace lmtrain {
namespace {

bool is_white_space(char32_t c) {
  return (c >= 0x9 && c <= 0xD) || c == 0x20 || c == 0x85 || c == 0xA0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F ||
         c == 0x3000;
}

// Where the last character of `text`, which is not empty, begins.
size_t last_character(std::string_view text) {
  size_t at = text.size() - 1;
  while (at > 0 && is_utf8_continuation(text[at])) --at;
  return at;
}

size_t space_begin(std::string_view text) {
  while (!text.empty()) {
    const size_t at = last_character(text);
    char32_t c = 0;
    decode_utf8(text.substr(at), c);
    if (!is_white_space(c)) break;
    text = text.substr(0, at);
  }
  return text.size();
}

size_t space_size(std::string_view text) {
  size_t size = 0;
  while (size < text.size()) {
    char32_t c = 0;
    const size_t bytes = decode_utf8(text.substr(size), c);
    if (!is_white_space(c)) break;
    size += bytes;
  }
  return size;
}

}  // namespace

AddedTokens::AddedTokens(std::vector<AddedToken> tokens) : tokens_(std::move(tokens)) {
  std::vector<ByteTrie::Entry> contents;
  for (size_t i = 0; i < tokens_.size(); ++i) {
    const std::string& content = tokens_[i].content;
    if (content.empty()) continue;
    a_begin_ = content.front();
    bool& begins = begins_[static_cast<unsigned char>(a_begin_)];
    if (!begins) ++num_begins_;
    begins = true;
    contents.push_back({content, static_cast<int32_t>(i)});
  }
  contents_ = ByteTrie(std::move(contents));
  const bool needs_word = std::any_of(tokens_.begin(), tokens_.end(),
                                      [](const AddedToken& token) { return token.single_word; });
  // \w of Unicode (UTS #18, annex C); the ranges are letters in circles and squares.
  if (needs_word) {
    word_.emplace(
        R"([\p{L}\p{M}\p{Nl}\p{Nd}\p{Pc}\x{200c}\x{200d}\x{24b6}-\x{24e9}\x{1f130}-\x{1f149})"
        R"(\x{1f150}-\x{1f169}\x{1f170}-\x{1f189}])",
        "a character of a word");
  }
}

// The first place from `at` on where a token may begin, or the end of the text.
size_t AddedTokens::next_begin(std::string_view text, size_t at) const {
  if (num_begins_ > 1) {
    while (at < text.size() && !begins_[static_cast<unsigned char>(text[at])]) ++at;
    return at;
  }
  const size_t found = num_begins_ == 0 ? text.size() : text.find(a_begin_, at);
  return std::min(found, text.size());
}

bool AddedTokens::is_word_before(std::string_view text) const {
  return !text.empty() && is_word_after(text.substr(last_character(text)));
}

bool AddedTokens::is_word_after(std::string_view text) const {
  if (text.empty()) return false;
  char32_t c = 0;
  SplitRegex::Matcher matcher;
  SplitRegex::Match match{};
  return word_->find(text.substr(0, decode_utf8(text, c)), 0, matcher, match);
}

void AddedTokens::find(std::string_view text, std::vector<Part>& parts) const {
  parts.clear();
  size_t done = 0;
  for (size_t at = 0; (at = next_begin(text, at)) < text.size();) {
    int32_t index = 0;
    const size_t size = contents_.longest(text.substr(at), &index);
    if (size == 0) {
      ++at;
      continue;
    }
    const AddedToken* const token = &tokens_[static_cast<size_t>(index)];
    size_t begin = at;
    size_t end = at + size;
    at = end;
    if (token->single_word &&
        (is_word_before(text.substr(0, begin)) || is_word_after(text.substr(end)))) {
      continue;
    }
    // White space that the last token has taken stays with it. That token may have taken the
    // beginning of this one, too: then both are found, as in the library.
    if (token->lstrip) begin = std::max(space_begin(text.substr(0, begin)), done);
    if (token->rstrip) end += space_size(text.substr(end));
    if (done < begin) parts.push_back({nullptr, done, begin});
    parts.push_back({token, begin, end});
    done = end;
  }
  if (done != text.size()) parts.push_back({nullptr, done, text.size()});
}

}  // namespace lmtrain
