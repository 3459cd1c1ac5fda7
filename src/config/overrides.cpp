#include "config/overrides.h"

#include <algorithm>
#include <charconv>

#include "base/dotted_key.h"
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

// A measure of the run's length that is given on the command line replaces the others.
void clear_other_lengths(JsonNode& root, const std::string& key) {
  const std::vector<std::string> lengths = {"steps", "tokens", "epochs"};
  JsonNode* train = root.find("train");
  if (train == nullptr || !key.starts_with("train.")) return;
  const std::string given = key.substr(6);
  if (std::find(lengths.begin(), lengths.end(), given) == lengths.end()) return;
  std::erase_if(train->members, [&](const JsonMember& member) {
    return member.key != given &&
           std::find(lengths.begin(), lengths.end(), member.key) != lengths.end();
  });
}

}  // namespace

void apply_overrides(const std::vector<std::string>& overrides, JsonNode& root,
                     std::vector<std::string>& problems) {
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
    if (!value.is(Type::kNull)) clear_other_lengths(root, key);
  }
}

}  // namespace lmtrain
