// Searching, quoting and converting the tree once it is read.
#include "base/utf8.h"
#include "config/json_reader.h"

namespace lmtrain {

const JsonNode* JsonNode::find(std::string_view key) const {
  for (const JsonMember& member : members) {
    if (member.key == key) return &member.value;
  }
  return nullptr;
}

JsonNode* JsonNode::find(std::string_view key) {
  return const_cast<JsonNode*>(static_cast<const JsonNode*>(this)->find(key));
}

nlohmann::ordered_json to_json(const JsonNode& node) {
  switch (node.type) {
    case JsonNode::Type::kNull:
      break;
    case JsonNode::Type::kBool:
      return node.boolean;
    case JsonNode::Type::kNumber:
      if (node.integer) return *node.integer;
      return node.number;
    case JsonNode::Type::kString:
      return node.text;
    case JsonNode::Type::kArray: {
      nlohmann::ordered_json out = nlohmann::ordered_json::array();
      for (const JsonNode& item : node.items) out.push_back(to_json(item));
      return out;
    }
    case JsonNode::Type::kObject: {
      nlohmann::ordered_json out = nlohmann::ordered_json::object();
      for (const JsonMember& member : node.members) out[member.key] = to_json(member.value);
      return out;
    }
  }
  return nullptr;
}

std::string quote_json(const JsonNode& node) {
  constexpr size_t kMaxQuoted = 80;
  std::string text = node.is(JsonNode::Type::kNumber) ? node.text : to_json(node).dump();
  if (text.size() <= kMaxQuoted) return text;
  size_t cut = kMaxQuoted - 3;
  while (cut > 0 && is_utf8_continuation(text[cut])) --cut;
  return text.substr(0, cut) + "...";
}

std::string printable(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (static_cast<unsigned char>(c) < 0x20) {
      const std::string quoted = nlohmann::json(std::string(1, c)).dump();
      out += quoted.substr(1, quoted.size() - 2);
    } else {
      out += c;
    }
  }
  return out;
}

std::string pointer_component(std::string_view key) {
  std::string out;
  for (const char c : printable(key)) {
    if (c == '~') {
      out += "~0";
    } else if (c == '/') {
      out += "~1";
    } else {
      out += c;
    }
  }
  return out;
}

}  // namespace lmtrain
