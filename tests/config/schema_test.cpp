#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <regex>

#include "config/config_text.h"
#include "config/describe.h"
#include "config/settings.h"

namespace lmtrain {
namespace {

using Json = nlohmann::ordered_json;

// The part of JSON Schema that config_schema uses.
bool matches(const Json& schema, const Json& value) {
  if (schema.contains("anyOf")) {
    bool any = false;
    for (const Json& one : schema["anyOf"]) any = any || matches(one, value);
    if (!any) return false;
  }
  if (schema.contains("const") && schema["const"] != value) return false;
  if (schema.contains("enum")) {
    bool any = false;
    for (const Json& one : schema["enum"]) any = any || one == value;
    if (!any) return false;
  }
  if (schema.contains("type")) {
    const std::string type = schema["type"];
    const bool right = type == "object"    ? value.is_object()
                       : type == "array"   ? value.is_array()
                       : type == "string"  ? value.is_string()
                       : type == "boolean" ? value.is_boolean()
                       : type == "integer" ? value.is_number_integer()
                       : type == "number"  ? value.is_number()
                                           : value.is_null();
    if (!right) return false;
  }
  if (value.is_number()) {
    const double number = value;
    if (schema.contains("minimum") && number < schema["minimum"].get<double>()) return false;
    if (schema.contains("maximum") && number > schema["maximum"].get<double>()) return false;
    if (schema.contains("exclusiveMinimum") && number <= schema["exclusiveMinimum"].get<double>()) {
      return false;
    }
    if (schema.contains("exclusiveMaximum") && number >= schema["exclusiveMaximum"].get<double>()) {
      return false;
    }
  }
  if (value.is_string() && schema.contains("pattern") &&
      !std::regex_search(value.get<std::string>(),
                         std::regex(schema["pattern"].get<std::string>()))) {
    return false;
  }
  if (value.is_array() && schema.contains("items")) {
    if (value.size() < schema.value("minItems", size_t{0})) return false;
    for (const Json& item : value) {
      if (!matches(schema["items"], item)) return false;
    }
  }
  if (value.is_object() && schema.contains("patternProperties")) {
    const auto inner = schema["patternProperties"].begin();
    const std::regex pattern(inner.key());
    if (value.size() < schema["minProperties"].get<size_t>()) return false;
    for (const auto& [key, item] : value.items()) {
      if (!std::regex_search(key, pattern) || !matches(inner.value(), item)) return false;
    }
  }
  if (value.is_object() && schema.contains("properties")) {
    for (const auto& [key, item] : value.items()) {
      if (!schema["properties"].contains(key) || !matches(schema["properties"][key], item))
        return false;
    }
    for (const Json& key : schema.value("required", Json::array())) {
      if (!value.contains(key.get<std::string>())) return false;
    }
  }
  return true;
}

bool matches(const std::string& text) { return matches(config_schema(), Json::parse(text)); }

TEST(Schema, ResolvedConfigurationsMatch) {
  EXPECT_TRUE(matches(config_schema(), config_to_json(parsed(""))));
  const Config config = parsed(R"("threads": 3, "train": {"max_time": "2h"},
      "optimizer": {"groups": [{"pattern": "*"}]}, "eval": {"every": "10M"},
      "model": {"rope_scaling": {"rope_type": "llama3"}})");
  EXPECT_TRUE(matches(config_schema(), config_to_json(config)));
}

TEST(Schema, AgreesWithTheParser) {
  const std::pair<bool, const char*> kCases[] = {
      {true, R"("train": {"tokens": "10B"})"},
      {true, R"("train": {"tokens": 5, "max_time": "30min"})"},
      {false, R"("train": {"tokens": "10Q"})"},
      {true, R"("eval": {"every": "2%"}, "log": {"every": 0}, "restart": {"tokens": 7})"},
      {false, R"("lr_schedule": {"warmup": "90s"})"},
      {false, R"("optimizer": {"lr": 0})"},
      {false, R"("optimizer": {"betas": [0.9, 1.0]})"},
      {true, R"("threads": "auto")"},
      {false, R"("threads": "many")"},
      {false, R"("lrr": 0)"},
      {false, R"("model": {"hidden_act": "gelu"})"},
      {true, R"("model": {"hidden_act": "silu", "head_dim": null})"},
      {true, R"("$schema": "schema.json", "name": "x")"},
      {false, R"("optimizer": {"groups": [{"lr": 1}]})"},
      {true, R"("eval": {"early_stop": {"patience": 3}}, "log": {"samples": {"prompts": ["a"]}})"},
      {false, R"("eval": {"early_stop": {"patience": 0}})"},
      {false, R"("eval": {"early_stop": 3})"},
      {false, R"("log": {"samples": {"max_tokens": 3}})"},
  };
  for (const auto& [good, members] : kCases) {
    EXPECT_EQ(matches(config_text(members)), good) << members;
    EXPECT_EQ(problems_of(config_text(members)).empty(), good) << members;
  }
  EXPECT_FALSE(matches("{}")) << "data.train is required";
  const std::pair<bool, const char*> kEvaluationText[] = {
      {true, R"("a")"},
      {true, R"(["a", {"path": "b"}])"},
      {true, R"({"path": "b", "weight": 2.0})"},
      {true, R"({"python-3": "a", "prose.x_1": ["b", {"path": "c"}]})"},
      {true, R"({"length_of_it": "a"})"},
      {false, R"({})"},
      {false, R"({"a/b": "c"})"},
      {false, R"({"length_64": "c"})"},
      {false, R"({"path": ["c"]})"},
      {false, R"({"path": "c", "python": "d"})"},
      {false, R"({"a": []})"},
      {false, R"({"a": {"b": "c"}})"},
  };
  for (const auto& [good, eval] : kEvaluationText) {
    const std::string text = std::string(R"({"data": {"train": ["x"], "eval": )") + eval + "}}";
    EXPECT_EQ(matches(text), good) << eval;
    EXPECT_EQ(problems_of(text).empty(), good) << eval;
  }
}

TEST(Schema, DescribesEverySetting) {
  const Json schema = config_schema();
  EXPECT_EQ(schema["$schema"], "https://json-schema.org/draft/2020-12/schema");
  Config config;
  const SettingTable table = config_settings(config);
  for (const Setting& setting : table.settings()) {
    Json at = schema;
    std::string key = setting.key;
    for (size_t dot = key.find('.'); dot != std::string::npos; dot = key.find('.')) {
      at = at["properties"][key.substr(0, dot)];
      key = key.substr(dot + 1);
    }
    ASSERT_TRUE(at["properties"].contains(key)) << setting.key;
    EXPECT_TRUE(at["properties"][key].contains("description")) << setting.key;
  }
}

}  // namespace
}  // namespace lmtrain
