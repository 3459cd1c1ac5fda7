#include "tokenizer/text_steps.h"

#include <algorithm>
#include <charconv>

#include "base/text.h"
#include "base/utf8.h"
#include "tokenizer/byte_alphabet.h"

namespace lmtrain {
namespace {

// Returns the size of the maximal part of a broken character at the beginning of `text`; at least
// 1.
size_t maximal_part(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned first = byte(0);
  const size_t size = first < 0xC2 || first > 0xF4 ? 1 : first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
  size_t length = 1;
  while (length < size && length < text.size() && is_utf8_continuation(text[length])) {
    if (length == 1 && ((first == 0xE0 && byte(1) < 0xA0) || (first == 0xED && byte(1) >= 0xA0) ||
                        (first == 0xF0 && byte(1) < 0x90) || (first == 0xF4 && byte(1) >= 0x90)))
      break;
    ++length;
  }
  return length;
}

// A run of such bytes is read as a whole: if it is not UTF-8, each of them is U+FFFD.
std::vector<std::string> with_bytes_joined(const std::vector<std::string>& tokens) {
  std::vector<std::string> result;
  std::string bytes;
  const auto flush = [&] {
    if (bytes.empty()) return;
    if (is_utf8(bytes)) {
      result.push_back(bytes);
    } else {
      result.insert(result.end(), bytes.size(), "\uFFFD");
    }
    bytes.clear();
  };
  for (const std::string& token : tokens) {
    if (const auto byte = fallback_byte(token)) {
      bytes += static_cast<char>(*byte);
    } else {
      flush();
      result.push_back(token);
    }
  }
  flush();
  return result;
}

std::string stripped(std::string_view token, const DecoderStep& step) {
  const std::string_view character = step.character;
  for (int32_t i = 0; i < step.start && token.starts_with(character); ++i)
    token.remove_prefix(character.size());
  for (int32_t i = 0; i < step.stop && token.ends_with(character); ++i)
    token.remove_suffix(character.size());
  return std::string(token);
}

std::string without_metaspace(std::string_view token, const DecoderStep& step, bool is_first) {
  std::string result;
  for (size_t found = 0; (found = token.find(step.character)) != std::string_view::npos;) {
    result += token.substr(0, found);
    if (!is_first || !step.has_prefix) result += ' ';
    token.remove_prefix(found + step.character.size());
  }
  result += token;
  return result;
}

// Returns a copy with one U+FFFD for each maximal part of a broken character (Unicode, 3.9).
std::string with_parts_replaced(std::string_view text) {
  std::string out;
  for (;;) {
    const size_t valid = valid_utf8_prefix(text);
    out += text.substr(0, valid);
    text.remove_prefix(valid);
    if (text.empty()) return out;
    append_utf8(out, kReplacementCharacter);
    text.remove_prefix(maximal_part(text));
  }
}

std::string bytes_of(const std::vector<std::string>& tokens) {
  std::string bytes;
  for (const std::string& token : tokens) bytes += bytes_of_token(token).value_or(token);
  return with_parts_replaced(bytes);
}

}  // namespace

std::optional<unsigned char> fallback_byte(std::string_view token) {
  if (token.size() != 6 || !token.starts_with("<0x") || token.back() != '>') return std::nullopt;
  unsigned char value = 0;
  const char* const end = token.data() + 5;
  if (std::from_chars(token.data() + 3, end, value, 16).ptr != end) return std::nullopt;
  return value;
}

std::string fallback_token(unsigned char byte) {
  constexpr std::string_view kDigits = "0123456789ABCDEF";
  return {'<', '0', 'x', kDigits[byte >> 4U], kDigits[byte & 15U], '>'};
}

void Replacement::apply(std::string_view text, std::optional<SplitRegex::Matcher>& matcher,
                        std::string& out) const {
  size_t done = 0;
  if (!regex) {
    for (size_t found = 0; (found = text.find(literal, done)) != std::string_view::npos;) {
      out += text.substr(done, found - done);
      out += content;
      done = found + literal.size();
    }
  } else {
    if (!matcher) matcher.emplace();
    SplitRegex::Match match{};
    while (done < text.size() && regex->find(text, done, *matcher, match)) {
      out += text.substr(done, match.begin - done);
      out += content;
      done = match.end;
    }
  }
  out += text.substr(done);
}

std::string_view Normalizer::apply(std::string_view text, Scratch& scratch) const {
  int next = 0;  // the buffer in which the text does not lie
  for (const NormalizerStep& step : steps_) {
    if (text.empty()) break;
    std::string& buffer = scratch.buffers_[next];
    std::string_view result;
    switch (step.kind) {
      case NormalizerStep::Kind::kForm:
        result = to_form(step.form, text, buffer);
        break;
      case NormalizerStep::Kind::kLowercase:
        result = to_lower_case(text, buffer);
        break;
      case NormalizerStep::Kind::kPrepend:
        buffer = step.replacement.content;
        result = buffer += text;
        break;
      case NormalizerStep::Kind::kReplace:
        buffer.clear();
        step.replacement.apply(text, scratch.matcher_, buffer);
        result = buffer;
        break;
    }
    if (result.data() != text.data()) next = 1 - next;
    text = result;
  }
  return text;
}

std::string Decoder::decode(std::vector<std::string> tokens) const {
  std::optional<SplitRegex::Matcher> matcher;
  for (const DecoderStep& step : steps_) {
    switch (step.kind) {
      case DecoderStep::Kind::kByteLevel:
        tokens = {bytes_of(tokens)};
        break;
      case DecoderStep::Kind::kByteFallback:
        tokens = with_bytes_joined(tokens);
        break;
      case DecoderStep::Kind::kFuse:
        tokens = {join(tokens, "")};
        break;
      case DecoderStep::Kind::kStrip:
        for (std::string& token : tokens) token = stripped(token, step);
        break;
      case DecoderStep::Kind::kMetaspace:
        for (size_t i = 0; i < tokens.size(); ++i)
          tokens[i] = without_metaspace(tokens[i], step, i == 0);
        break;
      case DecoderStep::Kind::kReplace:
        for (std::string& token : tokens) {
          std::string replaced;
          step.replacement.apply(token, matcher, replaced);
          token = std::move(replaced);
        }
        break;
    }
  }
  return join(tokens, "");
}

bool Decoder::has_byte_fallback() const {
  return std::any_of(steps_.begin(), steps_.end(), [](const DecoderStep& step) {
    return step.kind == DecoderStep::Kind::kByteFallback;
  });
}

}  // namespace lmtrain
