#include "tokenizer/model_check.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <set>
#include <vector>

#include "base/bytes.h"
#include "base/text.h"
#include "base/utf8.h"
#include "tokenizer/character_table.h"
#include "tokenizer/text_steps.h"

namespace lmtrain {
namespace {

// The library has room for this many matches of a trie at one position of a text.
constexpr size_t kMostReplaced = 32;
constexpr size_t kMostUserDefined = 64;

class Trie {
 public:
  // `bytes`: four a TrieUnit. `num_values`: values are below.
  Trie(std::string_view bytes, size_t num_values) : bytes_(bytes), num_values_(num_values) {}

  // Follows every way from the root.
  std::string problem() {
    if (bytes_.size() % 1024 != 0 || bytes_.empty())
      return str("its trie of ", bytes_.size(), " bytes is not made of blocks of 1024");
    state_.resize(bytes_.size() / 4);
    longest_.resize(state_.size());
    enter(unit(0).offset());
    while (!open_.empty() && problem_.empty()) advance();
    return problem_;
  }

 private:
  enum State : uint8_t { kUnseen, kOpen, kDone };
  struct Node {
    uint32_t position;
    unsigned next_byte;
  };

  TrieUnit unit(uint32_t position) const {
    return {value_at<uint32_t>(bytes_.data() + 4 * size_t{position})};
  }

  void enter(uint32_t position) {
    if ((position | 0xFFU) >= state_.size()) {
      problem_ = str("its trie leads to unit ", position, " of ", state_.size());
    } else if (state_[position] == kOpen) {
      problem_ = str("its trie runs in a circle at unit ", position);
    } else if (state_[position] == kUnseen) {
      state_[position] = kOpen;
      open_.push_back({position, 0});
    }
  }

  // Goes on by one byte from the current node, or back if no byte is left.
  void advance() {
    const Node node = open_.back();
    if (node.next_byte == 256) {
      state_[node.position] = kDone;
      open_.pop_back();
      return;
    }
    const TrieUnit child = unit(node.position ^ node.next_byte);
    if (child.label() != node.next_byte) {
      ++open_.back().next_byte;
      return;
    }
    const uint32_t next = node.position ^ node.next_byte ^ child.offset();
    if (next < state_.size() && state_[next] == kDone) {
      ++open_.back().next_byte;
      count(node.position, next, child);
    } else {
      enter(next);  // and this byte again once that is done
    }
  }

  void count(uint32_t position, uint32_t next, TrieUnit child) {
    const uint32_t value = unit(next).value();
    if (child.ends_text() && value >= num_values_) {
      problem_ =
          str("its unit ", next, " refers to byte ", value, " of replacements of ", num_values_);
    }
    const size_t longest = longest_[next] + (child.ends_text() ? 1 : 0);
    if (longest > kMostReplaced)
      problem_ = str("more than ", kMostReplaced, " of its texts begin with each other");
    longest_[position] = std::max(longest_[position], static_cast<uint8_t>(longest));
  }

  std::string_view bytes_;
  size_t num_values_;
  std::string problem_;
  std::vector<State> state_;      // of the node at each position
  std::vector<uint8_t> longest_;  // the most texts that end on one way from there
  std::vector<Node> open_;
};

std::string piece_problem(const ModelPiece& piece, const SentencePieceModel& model) {
  if (piece.text.empty()) return "its text is empty";
  if (!is_utf8(piece.text)) return "its text is not UTF-8";
  if (!std::isfinite(piece.score)) return "its score is not finite";
  const bool ends_at_nul =
      model.type == ModelType::kUnigram || piece.type == PieceType::kUserDefined;
  if (ends_at_nul && piece.text.find('\0') != std::string::npos) return "its text holds a NUL";
  const std::optional<unsigned char> byte = fallback_byte(piece.text);
  if (piece.type == PieceType::kByte && (!byte || piece.text != fallback_token(*byte)))
    return str("the byte ", quote(piece.text), " is not named as <0x00> to <0xFF>");
  if (piece.type == PieceType::kByte && !model.byte_fallback)
    return "it is a byte, in a model without byte_fallback";
  return {};
}

// The longest chain of texts, each of which begins with the one before it.
size_t longest_chain(const std::set<std::string_view>& texts) {
  std::vector<std::string_view> chain;
  size_t longest = 0;
  for (const std::string_view text : texts) {
    while (!chain.empty() && !text.starts_with(chain.back())) chain.pop_back();
    chain.push_back(text);
    longest = std::max(longest, chain.size());
  }
  return longest;
}

std::string pieces_problem(const SentencePieceModel& model) {
  std::set<std::string_view> texts;     // what may be in a text
  std::set<std::string_view> reserved;  // what the model itself means
  std::set<std::string_view> user_defined;
  size_t num_unknown = 0;
  size_t num_bytes = 0;
  for (size_t id = 0; id < model.pieces.size(); ++id) {
    const ModelPiece& piece = model.pieces[id];
    if (const std::string problem = piece_problem(piece, model); !problem.empty())
      return str("piece ", id, ": ", problem);
    const bool is_reserved = piece.type == PieceType::kUnknown ||
                             piece.type == PieceType::kControl || piece.type == PieceType::kByte;
    if (!(is_reserved ? reserved : texts).insert(piece.text).second)
      return str("piece ", id, ": ", quote(piece.text), " is there twice");
    if (piece.type == PieceType::kUserDefined) user_defined.insert(piece.text);
    if (piece.type == PieceType::kUnknown) ++num_unknown;
    if (piece.type == PieceType::kByte) ++num_bytes;
  }
  if (model.pieces.empty()) return "it has no pieces";
  if (num_unknown != 1) return str("it has ", num_unknown, " pieces for the unknown, not one");
  if (model.byte_fallback && num_bytes != 256)
    return str("it has ", num_bytes, " pieces for bytes, not 256");
  if (longest_chain(user_defined) > kMostUserDefined)
    return str("more than ", kMostUserDefined, " user-defined symbols begin with each other");
  return {};
}

}  // namespace

std::string table_problem(std::string_view table) {
  constexpr size_t kSizeBytes = 4;
  if (table.size() < kSizeBytes) return "it is cut short";
  const auto trie_size = size_t{value_at<uint32_t>(table.data())};
  const std::string_view rest = table.substr(kSizeBytes);
  if (trie_size >= rest.size())
    return str("its trie of ", trie_size, " bytes does not fit into ", rest.size());
  const std::string_view replacements = rest.substr(trie_size);
  if (replacements.back() != '\0') return "its last replacement has no end";
  // Checks all replacements at once.
  if (const size_t valid = valid_utf8_prefix(replacements); valid < replacements.size())
    return str("its replacements are not UTF-8 at byte ", valid);
  constexpr size_t kLongest = 1024;
  for (size_t begin = 0; begin < replacements.size();) {
    const size_t end = replacements.find('\0', begin);
    if (end - begin > kLongest) return str("a replacement has ", end - begin, " bytes");
    begin = end + 1;
  }
  return Trie(rest.substr(0, trie_size), replacements.size()).problem();
}

std::string model_problem(const SentencePieceModel& model) {
  if (model.damage) return str("byte ", *model.damage, ": no field that protobuf knows");
  if (std::string problem = pieces_problem(model); !problem.empty()) return problem;
  for (const ModelTable& table : model.tables) {
    if (table.bytes.empty()) continue;
    if (const std::string problem = table_problem(table.bytes); !problem.empty())
      return str("the table of characters in ", table.name, ": ", problem);
  }
  return {};
}

}  // namespace lmtrain
