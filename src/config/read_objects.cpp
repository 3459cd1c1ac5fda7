// Settings that hold texts or objects: data sources, optimizer groups, transformers' rope scaling.
#include "base/text.h"
#include "config/read_settings.h"
#include "config/settings.h"

namespace lmtrain {
namespace {

using Type = JsonNode::Type;

const char* const kNotRopeScaling = "is not an object";

// Returns what is wrong with scaled positions, as the end of a sentence; "" where nothing is.
std::string rope_problem(const RopeScalingConfig& scaling, const ConfigOrigins& given) {
  const bool needs_factor =
      scaling.rope_type == RopeType::kLinear || scaling.rope_type == RopeType::kYarn;
  if (needs_factor && !given.given("factor")) return "has no \"factor\"";
  if (scaling.low_freq_factor >= scaling.high_freq_factor)
    return "has a low_freq_factor that is not below high_freq_factor";
  if (scaling.rope_type == RopeType::kYarn && !given.given("original_max_position_embeddings"))
    return "has no \"original_max_position_embeddings\", and there is no "
           "max_position_embeddings beside it that could stand for it";
  return "";
}

// An object with a path is a source, any other one holds named sets of sources.
bool is_source(const JsonNode& node) {
  return node.is(Type::kString) || (node.is(Type::kObject) && (node.find("path") != nullptr ||
                                                               node.find("weight") != nullptr));
}

}  // namespace

ConfigOrigins SettingReader::read_item(const JsonNode& node, const SettingTable& table,
                                       const Setting& setting, const std::string& pointer) {
  SettingReader inner(UnknownKeys::kError);
  inner.read_section(node, table, "", pointer);
  for (const Setting& field : table.settings()) {
    if (field.required && !inner.origins_.given(field.key)) {
      inner.problem(node.where, pointer, "\"" + field.key + "\" is missing: " + field.meaning);
    }
  }
  if (!inner.problems_.empty()) bad_.insert(setting.key);
  problems_.insert(problems_.end(), inner.problems_.begin(), inner.problems_.end());
  return inner.origins_;
}

void SettingReader::read_texts(const JsonNode& node, const Setting& setting,
                               const std::string& pointer) {
  const bool is_one = node.is(Type::kString);
  if (!is_one && !node.is(Type::kArray)) return wrong(node, setting, pointer, "is not a list");
  if (!is_one && node.items.empty()) return wrong(node, setting, pointer, "is empty");
  std::vector<std::string> texts;
  if (is_one) texts.push_back(node.text);
  for (size_t i = 0; i < node.items.size(); ++i) {
    const JsonNode& item = node.items[i];
    if (!item.is(Type::kString)) wrong(item, setting, str(pointer, '/', i), "is not text");
    texts.push_back(item.text);
  }
  if (!bad(setting.key)) store(setting.slot, texts);
}

void SettingReader::read_sources(const JsonNode& node, const Setting& setting,
                                 const std::string& pointer) {
  std::vector<DataSourceConfig> sources;
  const bool may_be_named = setting.kind == SettingKind::kNamedSources;
  if (may_be_named && node.is(Type::kObject) && !is_source(node)) {
    if (node.members.empty()) return wrong(node, setting, pointer, "names no data");
    for (const JsonMember& member : node.members) {
      const std::string below = pointer + "/" + pointer_component(member.key);
      if (!is_set_name(member.key)) {
        bad_.insert(setting.key);
        problem(member.key_where, below,
                "cannot name a set; a name has letters, digits, \"_\", \"-\" and \".\", and is no "
                "length_N, which names a bucket of document lengths");
      }
      read_source_list(member.value, setting, below, member.key, sources);
    }
  } else {
    read_source_list(node, setting, pointer, "", sources);
  }
  if (!bad(setting.key)) store(setting.slot, sources);
}

void SettingReader::read_source_list(const JsonNode& node, const Setting& setting,
                                     const std::string& pointer, const std::string& set,
                                     std::vector<DataSourceConfig>& sources) {
  const bool single = node.is(Type::kString) || node.is(Type::kObject);
  if (!single && !node.is(Type::kArray)) {
    return wrong(node, setting, pointer, "is not a list of paths");
  }
  if (node.is(Type::kArray) && node.items.empty()) {
    return wrong(node, setting, pointer, "names no data");
  }
  const size_t count = single ? 1 : node.items.size();
  for (size_t i = 0; i < count; ++i) {
    const JsonNode& item = single ? node : node.items[i];
    const std::string below = single ? pointer : str(pointer, '/', i);
    DataSourceConfig source;
    if (item.is(Type::kString)) {
      if (!expand_path(item, below, &source.path)) bad_.insert(setting.key);
    } else if (item.is(Type::kObject)) {
      read_item(item, source_settings(source), setting, below);
    } else {
      wrong(item, setting, below, "is neither a path nor an object");
    }
    source.set = set;
    sources.push_back(source);
  }
}

void SettingReader::read_groups(const JsonNode& node, const Setting& setting,
                                const std::string& pointer) {
  if (!node.is(Type::kArray)) return wrong(node, setting, pointer, "is not a list");
  std::vector<OptimizerGroupConfig> groups;
  for (size_t i = 0; i < node.items.size(); ++i) {
    OptimizerGroupConfig group;
    read_item(node.items[i], group_settings(group), setting, str(pointer, '/', i));
    groups.push_back(group);
  }
  if (!bad(setting.key)) store(setting.slot, groups);
}

void SettingReader::read_rope_scaling(const JsonNode& node, const Setting& setting,
                                      const std::string& pointer) {
  if (!node.is(Type::kObject)) return wrong(node, setting, pointer, kNotRopeScaling);
  // Before transformers 4.43 the key was `type`; later versions write both.
  JsonNode object = node;
  const JsonNode* old_name = object.find("type");
  const JsonNode* new_name = object.find("rope_type");
  if (old_name == nullptr && new_name == nullptr) {
    return wrong(node, setting, pointer, "has no \"rope_type\"");
  }
  if (old_name != nullptr && new_name != nullptr) {
    if (old_name->text != new_name->text) {
      return wrong(node, setting, pointer, "has a \"type\" and another \"rope_type\"");
    }
    std::erase_if(object.members, [](const JsonMember& member) { return member.key == "type"; });
  } else if (old_name != nullptr) {
    for (JsonMember& member : object.members) {
      if (member.key == "type") member.key = "rope_type";
    }
  }
  RopeScalingConfig scaling;
  ConfigOrigins given = read_item(object, rope_scaling_settings(scaling), setting, pointer);
  if (bad(setting.key)) return;
  const std::string original = "original_max_position_embeddings";
  if (!given.given(original) && max_positions_ && *max_positions_ > 0) {
    scaling.original_max_position_embeddings = *max_positions_;
    given.by_key[original] = node.where;
  }
  if (const std::string problem = rope_problem(scaling, given); !problem.empty())
    return wrong(node, setting, pointer, problem);
  auto& slot = *std::get<std::optional<RopeScalingConfig>*>(setting.slot);
  // "default" is no scaling; one spelling of it keeps configurations comparable.
  slot = scaling.rope_type == RopeType::kDefault ? std::nullopt : std::optional(scaling);
}

void SettingReader::read_rope_parameters(const JsonNode& node, const SettingTable& table,
                                         const std::string& section, const std::string& pointer) {
  const std::string prefix = section.empty() ? "" : section + ".";
  const Setting& self = *table.find(prefix + "rope_parameters");
  const Setting& theta = *table.find(prefix + "rope_theta");
  const Setting& scaling = *table.find(prefix + "rope_scaling");
  const std::string here = pointer + "/rope_parameters";
  if (node.is(Type::kNull)) return;
  if (!node.is(Type::kObject)) return wrong(node, self, here, kNotRopeScaling);

  // Read aside, as the two keys of transformers 4, then compared with those if they are given.
  ModelConfig aside;
  const SettingTable aside_table = model_settings(aside, prefix);
  JsonNode object = node;
  if (const JsonNode* value = node.find("rope_theta")) {
    read(*value, *aside_table.find(theta.key), here + "/rope_theta");
    std::erase_if(object.members,
                  [](const JsonMember& member) { return member.key == "rope_theta"; });
    double& slot = *std::get<double*>(theta.slot);
    if (!bad(theta.key) && origins_.given(theta.key) && slot != aside.rope_theta) {
      wrong(*value, theta, here + "/rope_theta",
            "contradicts rope_theta at " + origins_.origin(theta.key));
    }
    if (!bad(theta.key)) {
      slot = aside.rope_theta;
      origins_.by_key[theta.key] = value->where;
    }
  }
  // Without a type there is no scaling (transformers 5), but unknown keys are still errors.
  if (object.find("rope_type") == nullptr && object.find("type") == nullptr) {
    JsonMember type{"rope_type", node.where, {}};
    type.value.type = Type::kString;
    type.value.text = name_of(RopeType::kDefault);
    object.members.push_back(type);
  }
  const size_t before = problems_.size();
  read_rope_scaling(object, *aside_table.find(scaling.key), here);
  if (problems_.size() > before) return;
  auto& slot = *std::get<std::optional<RopeScalingConfig>*>(scaling.slot);
  if (origins_.given(scaling.key) && slot != aside.rope_scaling) {
    wrong(node, self, here, "contradicts rope_scaling at " + origins_.origin(scaling.key));
  }
  slot = aside.rope_scaling;
  origins_.by_key[scaling.key] = node.where;
}

}  // namespace lmtrain
