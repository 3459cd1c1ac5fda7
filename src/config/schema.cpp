// `config schema`: the settings as a JSON Schema (draft 2020-12), for editors and other checkers.
// Rules across settings are not in it.
#include <cmath>
#include <nlohmann/json.hpp>

#include "config/describe.h"
#include "config/settings.h"
#include "config/units.h"

namespace lmtrain {
namespace {

using Json = nlohmann::ordered_json;

Json ranged(const char* type, const SettingRange& range) {
  Json schema = {{"type", type}};
  // Whole limits as integers, which read better.
  const auto limit = [](double value) {
    return value == std::trunc(value) ? Json(static_cast<int64_t>(value)) : Json(value);
  };
  if (std::isfinite(range.low)) {
    schema[range.low_open ? "exclusiveMinimum" : "minimum"] = limit(range.low);
  }
  if (std::isfinite(range.high)) {
    schema[range.high_open ? "exclusiveMaximum" : "maximum"] = limit(range.high);
  }
  return schema;
}

Json pattern(const std::string& expression) {
  return {{"type", "string"}, {"pattern", expression}};
}

Json any_of(std::vector<Json> schemas) { return {{"anyOf", std::move(schemas)}}; }

Json list_of(const Json& items) { return {{"type", "array"}, {"items", items}}; }

class SchemaWriter {
 public:
  Json write() {
    Json schema = {{"$schema", "https://json-schema.org/draft/2020-12/schema"},
                   {"title", "lmtrain run configuration"}};
    schema.update(section(""));
    return schema;
  }

 private:
  Json section(const std::string& key) {
    Json properties = Json::object();
    Json required = Json::array();
    for (const Setting& setting : catalog_.config().settings()) {
      if (section_of(setting.key) != key) continue;
      const std::string name = last_component(setting.key);
      properties[name] = described(setting);
      if (setting.required) required.push_back(name);
    }
    for (const SettingSection& other : catalog_.config().sections()) {
      if (section_of(other.key) != key) continue;
      const std::string name = last_component(other.key);
      properties[name] = {{"description", other.meaning}};
      properties[name].update(section(other.key));
      if (properties[name].contains("required")) required.push_back(name);
    }
    return object(properties, required);
  }

  static Json object(const Json& properties, const Json& required) {
    Json schema = {{"type", "object"}, {"properties", properties}, {"additionalProperties", false}};
    if (!required.empty()) schema["required"] = required;
    return schema;
  }

  Json described(const Setting& setting) {
    std::string description = setting.meaning;
    if (!setting.used_key.empty()) description += " Used if " + describe_use(setting) + ".";
    if (!setting.null_meaning.empty()) {
      description += (setting.null_name.empty() ? " null: " : " " + setting.null_name + ": ") +
                     setting.null_meaning + ".";
    }
    if (!setting.source.empty()) description += " Source: " + setting.source + ".";
    Json schema = {{"description", description}};
    const Json base = accepted(setting);
    if (setting.nullable) {
      std::vector<Json> schemas = {base, {{"type", "null"}}};
      if (!setting.null_name.empty()) schemas.push_back({{"const", setting.null_name}});
      schema.update(any_of(std::move(schemas)));
    } else {
      schema.update(base);
    }
    const bool fixed = std::holds_alternative<std::monostate>(setting.slot);
    if (!fixed && !setting.required && setting.default_note.empty()) {
      schema["default"] = setting_value(setting);
    }
    return schema;
  }

  Json item(const SettingTable& table) {
    Json properties = Json::object();
    Json required = Json::array();
    for (const Setting& field : table.settings()) {
      properties[field.key] = described(field);
      if (field.required) required.push_back(field.key);
    }
    return object(properties, required);
  }

  Json accepted(const Setting& setting) {
    const SettingRange& range = setting.bounds;
    switch (setting.kind) {
      case SettingKind::kBool:
        return {{"type", "boolean"}};
      case SettingKind::kInteger:
        return ranged("integer", range);
      case SettingKind::kNumber:
        return ranged("number", range);
      case SettingKind::kText:
        return {{"type", "string"}};
      case SettingKind::kPath:
        return {{"type", "string"}, {"minLength", 1}};
      case SettingKind::kName:
        return pattern("^[^/]+$");
      case SettingKind::kChoice:
        return {{"enum", setting.choices}};
      case SettingKind::kDevice:
        return pattern("^(auto|cpu|cuda|cuda:[0-9]{1,3})$");
      case SettingKind::kTokens:
        return any_of({ranged("integer", range), pattern(tokens_pattern())});
      case SettingKind::kBytes:
        return any_of({ranged("integer", range), pattern(bytes_pattern())});
      case SettingKind::kDuration:
        return any_of({ranged("number", range), pattern(duration_pattern())});
      case SettingKind::kTrainingDuration:
        return duration(setting);
      case SettingKind::kNumbers:
        return list_of(ranged("number", range));
      case SettingKind::kIntegers:
        return list_of(ranged("integer", range));
      case SettingKind::kTrainingDurations:
        return list_of(duration(setting));
      case SettingKind::kSources:
        return sources(*catalog_.inside(setting));
      case SettingKind::kNamedSources:
        return named_sources(*catalog_.inside(setting));
      case SettingKind::kGroups:
        return list_of(item(*catalog_.inside(setting)));
      case SettingKind::kTexts:
        return texts();
      case SettingKind::kEarlyStop:
      case SettingKind::kSamples:
        return item(*catalog_.inside(setting));
      case SettingKind::kRopeScaling:
      case SettingKind::kRopeParameters:
        // Two generations of key names, which the parser sorts out.
        return {{"type", "object"}};
      case SettingKind::kAccepted:
        return fixed(setting);
    }
    return Json::object();
  }

  static Json texts() {
    const Json one = {{"type", "string"}};
    Json list = list_of(one);
    list["minItems"] = 1;
    return any_of({list, one});
  }

  static Json duration(const Setting& setting) {
    return any_of(
        {ranged("integer", {.low = 0}), pattern(training_duration_pattern(setting.units))});
  }

  Json sources(const SettingTable& table) {
    const std::vector<Json> one = {{{"type", "string"}}, item(table)};
    Json list = list_of(any_of(one));
    list["minItems"] = 1;
    return any_of({list, one[0], one[1]});
  }

  Json named_sources(const SettingTable& table) {
    const Json list = sources(table);
    const Json sets = {{"type", "object"},
                       {"patternProperties", {{kSetNamePattern, list}}},
                       {"additionalProperties", false},
                       {"minProperties", 1}};
    return any_of({list, sets});
  }

  static Json fixed(const Setting& setting) {
    if (setting.choices.empty()) return Json::object();
    Json values = Json::array();
    for (const std::string& choice : setting.choices) values.push_back(Json::parse(choice));
    const Json one = {{"enum", values}};
    return setting.each_item ? any_of({one, list_of(one)}) : one;
  }

  SettingsCatalog catalog_;
};

}  // namespace

nlohmann::ordered_json config_schema() { return SchemaWriter().write(); }

}  // namespace lmtrain
