// Writes the structs back as JSON, by the table of settings.
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/text.h"
#include "base/utf8.h"
#include "config/json_reader.h"
#include "config/parse.h"
#include "config/settings.h"
#include "config/units.h"

namespace lmtrain {
namespace {

using Json = nlohmann::ordered_json;

Json sources_json(const std::vector<DataSourceConfig>& sources) {
  Json list = Json::array();
  Json sets = Json::object();
  for (const DataSourceConfig& source : sources) {
    Json& out = source.set.empty() ? list : sets[source.set];
    out.push_back({{"path", source.path}, {"weight", source.weight}});
  }
  return sets.empty() ? list : sets;
}

// `object` is a copy: a table binds to what it could change.
template <class Object>
Json object_json(Object object, SettingTable (*settings)(Object&)) {
  Json out = Json::object();
  const SettingTable table = settings(object);
  for (const Setting& field : table.settings()) out[field.key] = setting_value(field);
  return out;
}

Json duration_json(const TrainingDuration& duration, TrainingDuration::Unit bare_unit) {
  if (duration.unit == bare_unit) return static_cast<int64_t>(duration.value);
  return write_training_duration(duration);
}

struct ToJson {
  const Setting& setting;

  Json operator()(std::monostate) const { return nullptr; }
  Json operator()(const bool* slot) const { return *slot; }
  Json operator()(const int64_t* slot) const { return *slot; }
  Json operator()(const double* slot) const {
    return setting.kind == SettingKind::kDuration ? Json(write_duration(*slot)) : Json(*slot);
  }
  Json operator()(const std::string* slot) const { return *slot; }
  Json operator()(const ChoiceSlot& slot) const { return slot.name(); }
  Json operator()(const TrainingDuration* slot) const {
    return duration_json(*slot, setting.bare_unit);
  }
  Json operator()(const std::vector<double>* slot) const { return *slot; }
  Json operator()(const std::vector<int64_t>* slot) const { return *slot; }
  Json operator()(const std::vector<TrainingDuration>* slot) const {
    Json out = Json::array();
    for (const TrainingDuration& duration : *slot)
      out.push_back(duration_json(duration, setting.bare_unit));
    return out;
  }
  Json operator()(const RopeScalingConfig* slot) const {
    return object_json(*slot, rope_scaling_settings);
  }
  Json operator()(const EarlyStopConfig* slot) const {
    return object_json(*slot, early_stop_settings);
  }
  Json operator()(const SamplesConfig* slot) const { return object_json(*slot, samples_settings); }
  Json operator()(const std::vector<std::string>* slot) const { return *slot; }
  Json operator()(const std::vector<DataSourceConfig>* slot) const { return sources_json(*slot); }
  Json operator()(const std::vector<OptimizerGroupConfig>* slot) const {
    Json out = Json::array();
    for (const OptimizerGroupConfig& group : *slot)
      out.push_back(object_json(group, group_settings));
    return out;
  }
  template <class T>
  Json operator()(const std::optional<T>* slot) const {
    if (*slot) return (*this)(&**slot);
    return setting.null_name.empty() ? Json(nullptr) : Json(setting.null_name);
  }
};

// Prints as JSON.dump(2) does, but with short lists on one line and with a note after values that
// are no defaults and after unused keys.
class Printer {
 public:
  Printer(const Config& config, const SettingTable& table,
          const std::map<std::string, std::string>& here)
      : config_(config), table_(table), here_(here) {}

  std::string print(const Json& root) {
    out_ = "// A value without a note is the default.\n";
    object(root, "", 0);
    return out_ + "\n";
  }

 private:
  // Returns where the value comes from, on one line; "" for a default.
  std::string source(const std::string& key) const {
    if (config_.origins.given(key)) return printable(config_.origins.origin(key));
    if (const auto found = config_.origins.chosen.find(key); found != config_.origins.chosen.end())
      return "chosen: " + found->second;
    const bool is_of_model = key.starts_with("model.") || key == "tokenizer.model";
    return config_.init_from && is_of_model ? "from init_from" : "";
  }

  void object(const Json& node, const std::string& section, size_t depth) {
    out_ += "{\n";
    size_t left = node.size();
    for (const auto& [name, value] : node.items()) {
      const std::string key = join_key(section, name);
      out_.append(2 * depth + 2, ' ');
      out_ += Json(name).dump() + ": ";
      if (table_.is_section(key)) {
        object(value, key, depth + 1);
      } else {
        out_ += value.dump();
      }
      if (--left > 0) out_ += ",";
      const Setting* setting = table_.find(key);
      std::vector<std::string> notes;
      if (setting != nullptr) {
        notes = {source(key)};
        if (const auto found = here_.find(key); found != here_.end())
          notes.push_back(found->second);
        if (const std::string reason = why_unused(*setting, table_); !reason.empty())
          notes.push_back("unused: " + reason);
        std::erase(notes, "");
      }
      if (!notes.empty()) out_ += "  // " + join(notes, "; ");
      out_ += "\n";
    }
    out_ += std::string(2 * depth, ' ') + "}";
  }

  const Config& config_;
  const SettingTable& table_;
  const std::map<std::string, std::string>& here_;
  std::string out_;
};

void make_absolute(std::string& path) {
  if (path.find("://") != std::string::npos) return;  // an address, not a path of this machine
  std::filesystem::path relative = path;
  while (path.starts_with("./") && path.size() > 2) {
    path.erase(0, std::min(path.find_first_not_of('/', 1), path.size()));
    if (path.empty()) path = ".";
    relative = path;
  }
  path = std::filesystem::absolute(relative).string();
  if (const std::string problem = why_config_cannot_hold(path); !problem.empty()) {
    throw Error(ErrorKind::kConfig, "the path " + relative.string() +
                                        " cannot be kept in config.json: " + path + " " + problem +
                                        "; rename the folder");
  }
}

}  // namespace

std::string why_config_cannot_hold(const std::string& path) {
  if (!is_utf8(path)) return "is not UTF-8";
  if (path.find("${") != std::string::npos)
    return "has ${, which in a config stands for an environment variable";
  return "";
}

nlohmann::ordered_json setting_value(const Setting& setting) {
  return std::visit(ToJson{setting}, setting.slot);
}

nlohmann::ordered_json config_to_json(const Config& config) {
  Config copy = config;  // a table binds to what it could change
  const SettingTable table = config_settings(copy);
  Json root = Json::object();
  for (const Setting& setting : table.settings()) {
    if (std::holds_alternative<std::monostate>(setting.slot)) continue;
    Json* value = &root;
    for (const std::string& part : key_parts(setting.key)) value = &(*value)[part];
    *value = setting_value(setting);
  }
  return root;
}

std::string show_config(const Config& config, const std::map<std::string, std::string>& here) {
  Config copy = config;
  const SettingTable table = config_settings(copy);
  return Printer(config, table, here).print(config_to_json(config));
}

void make_paths_absolute(Config& config) {
  const SettingTable table = config_settings(config);
  for (const Setting& setting : table.settings()) {
    if (auto* const* sources = std::get_if<std::vector<DataSourceConfig>*>(&setting.slot)) {
      for (DataSourceConfig& source : **sources) make_absolute(source.path);
    }
    if (auto* const* sources =
            std::get_if<std::optional<std::vector<DataSourceConfig>>*>(&setting.slot)) {
      if (!**sources) continue;
      for (DataSourceConfig& source : ***sources) make_absolute(source.path);
    }
    if (setting.kind != SettingKind::kPath) continue;
    if (auto* const* path = std::get_if<std::string*>(&setting.slot)) {
      make_absolute(**path);
    } else if (auto& optional = *std::get<std::optional<std::string>*>(setting.slot)) {
      make_absolute(*optional);
    }
  }
}

}  // namespace lmtrain
