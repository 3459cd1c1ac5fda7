#include "tokenizer/vocabulary_scanner.h"

#include <charconv>

#include "base/utf8.h"
#include "tokenizer/tokenizer_json.h"

namespace lmtrain {
namespace {

// Thrown at anything unusual, and never seen outside.
struct Unusual {};

class VocabularyScanner {
 public:
  explicit VocabularyScanner(std::string_view bytes) : bytes_(bytes) {}

  ScannedVocabulary run() {
    for_each_member([&](std::string_view key) {
      if (key != "model") return skip_value();
      for_each_member([&](std::string_view part) {
        if (part == "vocab") {
          take("{}", [&] { read_vocabulary(); });
        } else if (part == "merges") {
          take("[]", [&] {
            if (has_merges_) throw Unusual();
            has_merges_ = true;
            if (result_.ids.size() > 0) return read_merges();
            merges_ = at_;  // they are in ids, so that the vocabulary must be known
            skip_value();
          });
        } else {
          skip_value();
        }
      });
    });
    if (!has_merges_) throw Unusual();
    result_.rest += bytes_.substr(taken_);
    if (merges_ != 0) {
      at_ = merges_;
      read_merges();
    }
    return std::move(result_);
  }

 private:
  // Calls `read` for the value that begins here, and puts `instead` for it into the rest.
  template <class Read>
  void take(std::string_view instead, const Read& read) {
    skip_space();
    result_.rest += bytes_.substr(taken_, at_ - taken_);
    result_.rest += instead;
    read();
    taken_ = at_;
  }

  template <class Each>
  void for_each_member(const Each& each) {
    expect('{');
    if (accept('}')) return;
    do {
      const std::string_view key = read_string(key_);
      expect(':');
      each(key);
    } while (accept(','));
    expect('}');
  }

  void read_vocabulary() {
    if (result_.ids.size() > 0) throw Unusual();
    constexpr size_t kBytesOfToken = 64;  // with its merge
    result_.ids.reserve(bytes_.size() / kBytesOfToken);
    expect('{');
    do {
      const std::string_view token = read_string(left_);
      expect(':');
      const auto id = static_cast<size_t>(read_id());
      if (token.empty() || !result_.ids.add(token, static_cast<int32_t>(id))) throw Unusual();
      std::vector<std::string>& pieces = result_.pieces;
      if (pieces.size() <= id) pieces.resize(id + 1);
      if (!pieces[id].empty()) throw Unusual();
      pieces[id] = token;
    } while (accept(','));
    expect('}');
  }

  // Each is "a b" or ["a", "b"].
  void read_merges() {
    if (result_.ids.size() == 0) throw Unusual();
    expect('[');
    if (accept(']')) return;
    do {
      std::string_view left;
      std::string_view right;
      if (accept('[')) {
        left = read_string(left_);
        expect(',');
        right = read_string(right_);
        expect(']');
      } else {
        const std::string_view text = read_string(left_);
        if (text.starts_with("#version")) continue;
        const size_t space = text.find(' ');
        if (space == std::string_view::npos || text.find(' ', space + 1) != std::string_view::npos)
          throw Unusual();
        left = text.substr(0, space);
        right = text.substr(space + 1);
      }
      joined_.assign(left).append(right);
      result_.merges.push_back({id_of(left), id_of(right), id_of_joined()});
    } while (accept(','));
    expect(']');
  }

  int32_t id_of(std::string_view token) const {
    const int32_t id = result_.ids.find(token);
    if (id == StringIds::kNone) throw Unusual();
    return id;
  }

  // Most merges stand in the order of the tokens that they make.
  int32_t id_of_joined() {
    const bool is_next = next_joined_ < result_.pieces.size() && !joined_.empty() &&
                         result_.pieces[next_joined_] == joined_;
    const int32_t id = is_next ? static_cast<int32_t>(next_joined_) : id_of(joined_);
    next_joined_ = static_cast<size_t>(id) + 1;
    return id;
  }

  char peek() const {
    if (at_ == bytes_.size()) throw Unusual();
    return bytes_[at_];
  }
  void skip_space() {
    for (; at_ < bytes_.size(); ++at_) {
      const char c = bytes_[at_];
      if (c != ' ' && c != '\n' && c != '\r' && c != '\t') return;
    }
  }
  bool accept(char c) {
    skip_space();
    if (peek() != c) return false;
    ++at_;
    return true;
  }
  void expect(char c) {
    if (!accept(c)) throw Unusual();
  }

  int32_t read_id() {
    skip_space();
    const size_t begin = at_;
    int32_t id = 0;
    for (; peek() >= '0' && peek() <= '9'; ++at_) {
      id = 10 * id + (peek() - '0');
      if (id > kMostTokenId) throw Unusual();
    }
    const bool has_leading_zero = bytes_[begin] == '0' && at_ - begin > 1;
    if (at_ == begin || has_leading_zero) throw Unusual();
    return id;
  }

  // Returns a part of the file, or the content of `buffer`.
  std::string_view read_string(std::string& buffer) {
    expect('"');
    const size_t begin = at_;
    bool is_ascii = true;
    bool has_escapes = false;
    for (; peek() != '"'; ++at_) {
      const auto c = static_cast<unsigned char>(peek());
      if (c < 0x20) throw Unusual();
      is_ascii = is_ascii && c < 0x80;
      if (c != '\\') continue;
      has_escapes = true;
      ++at_;
      peek();
    }
    const std::string_view raw = bytes_.substr(begin, at_ - begin);
    ++at_;
    if (!is_ascii && !is_utf8(raw)) throw Unusual();
    if (!has_escapes) return raw;
    buffer.clear();
    for (size_t i = 0; i < raw.size();) {
      if (raw[i] == '\\') {
        append_escape(raw, i, buffer);
      } else {
        buffer += raw[i++];
      }
    }
    return buffer;
  }

  static void append_escape(std::string_view raw, size_t& i, std::string& buffer) {
    constexpr std::string_view kNames = "\"\\/bfnrt";
    constexpr std::string_view kCharacters = "\"\\/\b\f\n\r\t";
    const char name = raw[i + 1];
    if (name != 'u') {
      const size_t found = kNames.find(name);
      if (found == std::string_view::npos) throw Unusual();
      buffer += kCharacters[found];
      i += 2;
      return;
    }
    char32_t c = read_unit(raw, i);
    if (c >= 0xDC00 && c < 0xE000) throw Unusual();
    if (c >= 0xD800 && c < 0xDC00) {
      const char32_t low = read_unit(raw, i);
      if (low < 0xDC00 || low >= 0xE000) throw Unusual();
      c = 0x10000 + ((c - 0xD800) << 10) + (low - 0xDC00);
    }
    append_utf8(buffer, c);
  }

  // "\u" and four digits.
  static char32_t read_unit(std::string_view raw, size_t& i) {
    constexpr size_t kSize = 6;
    if (raw.size() - i < kSize || raw[i] != '\\' || raw[i + 1] != 'u') throw Unusual();
    uint32_t value = 0;
    const char* const end = raw.data() + i + kSize;
    if (std::from_chars(raw.data() + i + 2, end, value, 16).ptr != end) throw Unusual();
    i += kSize;
    return value;
  }

  void skip_value() {
    skip_space();
    size_t depth = 0;
    do {
      const char c = peek();
      if (c == '"') {
        skip_string();
        continue;
      }
      if (depth == 0 && (c == ',' || c == '}' || c == ']')) return;
      if (c == '{' || c == '[') ++depth;
      if (c == '}' || c == ']') --depth;
      ++at_;
      if (depth == 0 && (c == '}' || c == ']')) return;
    } while (true);
  }
  void skip_string() {
    for (++at_; peek() != '"'; ++at_) {
      if (peek() != '\\') continue;
      ++at_;
      peek();
    }
    ++at_;
  }

  std::string_view bytes_;
  size_t at_ = 0;
  size_t taken_ = 0;  // what lies before is in the rest
  bool has_merges_ = false;
  size_t merges_ = 0;  // where they begin, if they are still to be read
  size_t next_joined_ = 0;
  ScannedVocabulary result_;
  std::string key_;
  std::string left_;
  std::string right_;
  std::string joined_;
};

}  // namespace

std::optional<ScannedVocabulary> scan_vocabulary(std::string_view bytes) {
  try {
    return VocabularyScanner(bytes).run();
  } catch (const Unusual&) {
    return std::nullopt;
  }
}

}  // namespace lmtrain
