#include "config/overrides.h"

#include <algorithm>
#include <charconv>

#include "base/text.h"
#include "base/utf8.h"

namespace lmtrain {
namespace {

using Type = JsonNode::Type;

constexpr size_t kMaxParts = 16;

std::string label_of(const std::string& override) {
  constexpr size_t kLongest = 100;
  std::string shown = is_utf8(override) ? printable(override) : "(not UTF-8)";
  if (shown.size() > kLongest) {
    size_t cut = kLongest;
    while (!is_utf8(shown.substr(0, cut))) --cut;
    shown = shown.substr(0, cut) + "...";
  }
  return "--set " + shown;
}

// Text that begins like a JSON object, array or string must be one; anything else that is no JSON
// is a bare word.
bool must_be_json(std::string_view text) {
  return !text.empty() && (text[0] == '{' || text[0] == '[' || text[0] == '"');
}

JsonNode parse_value(const std::string& text, const std::string& label,
                     std::vector<std::string>& problems) {
  JsonReadResult parsed = read_json_argument(text, label);
  if (parsed.root || must_be_json(text)) {
    problems.insert(problems.end(), parsed.problems.begin(), parsed.problems.end());
    if (parsed.root) return *parsed.root;
  }
  JsonNode word;
  word.type = Type::kString;
  word.where = label;
  word.text = text;
  return word;
}

// The child named `part`, made if it is missing; null where the node has no children by that name.
JsonNode* child(JsonNode& node, const std::string& part, const std::string& label) {
  if (node.is(Type::kArray)) {
    size_t index = 0;
    const auto parsed = std::from_chars(part.data(), part.data() + part.size(), index);
    if (parsed.ec != std::errc{} || parsed.ptr != part.data() + part.size()) return nullptr;
    return index < node.items.size() ? &node.items[index] : nullptr;
  }
  if (node.is(Type::kNull)) {
    node.type = Type::kObject;
    node.where = label;
  }
  if (!node.is(Type::kObject)) return nullptr;
  if (JsonNode* found = node.find(part)) return found;
  node.members.push_back({part, label, {}});
  node.members.back().value.where = label;
  return &node.members.back().value;
}

constexpr std::string_view kLengths[] = {"steps", "tokens", "epochs", "time"};

// Which measure of the run's length a key is, "steps" of train.steps; empty for another key.
std::string length_of_key(const std::string& key) {
  if (!key.starts_with("train.")) return {};
  std::string name = key.substr(6);
  const bool is_length =
      std::find(std::begin(kLengths), std::end(kLengths), name) != std::end(kLengths);
  return is_length ? name : std::string();
}

// A measure of the run's length that is given on the command line replaces the others.
void clear_other_lengths(JsonNode& root, const std::string& given) {
  JsonNode* train = root.find("train");
  if (train == nullptr) return;
  std::erase_if(train->members, [&](const JsonMember& member) {
    return member.key != given &&
           std::find(std::begin(kLengths), std::end(kLengths), member.key) != std::end(kLengths);
  });
}

}  // namespace

void apply_overrides(const std::vector<std::string>& overrides, JsonNode& root,
                     std::vector<std::string>& problems) {
  std::string length, length_label;  // the measure of the run's length that was given
  for (const std::string& override : overrides) {
    const std::string label = label_of(override);
    const size_t equals = override.find('=');
    if (!is_utf8(override)) {
      problems.push_back(label + ": is not UTF-8");
      continue;
    }
    const std::string key = override.substr(0, equals);
    const std::vector<std::string> parts = key_parts(key);
    if (equals == std::string::npos || std::find(parts.begin(), parts.end(), "") != parts.end()) {
      problems.push_back(label + ": expected key=value, for example --set optimizer.lr=3e-4");
      continue;
    }
    if (parts.size() > kMaxParts) {
      problems.push_back(str(label, ": a key of ", parts.size(), " parts; no setting has as many"));
      continue;
    }
    const size_t before = problems.size();
    const JsonNode value = parse_value(override.substr(equals + 1), label, problems);
    if (problems.size() > before) continue;
    JsonNode* node = &root;
    std::string pointer;
    for (const std::string& part : parts) {
      JsonNode* next = child(*node, part, label);
      if (next == nullptr) {
        problems.push_back(str(label, ": ", pointer.empty() ? "the configuration" : pointer, ": ",
                               quote_json(*node), " has no \"", printable(part),
                               "\" that could be set"));
        break;
      }
      node = next;
      pointer += "/" + pointer_component(part);
    }
    if (problems.size() > before) continue;
    *node = value;
    const std::string measure = length_of_key(key);
    if (measure.empty() || value.is(Type::kNull)) continue;
    if (!length.empty() && length != measure) {
      problems.push_back(
          str(length_label, " and ", label, ": both say how long the run is; give one of them"));
    }
    length = measure;
    length_label = label;
    clear_other_lengths(root, measure);
  }
}

}  // namespace lmtrain
