// `config explain`: what a setting means, in words for a terminal.

#include "config/describe.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "base/text.h"
#include "config/removed_settings.h"

namespace lmtrain {

SettingsCatalog::SettingsCatalog()
    : config_table_(config_settings(config_)),
      source_table_(source_settings(source_)),
      group_table_(group_settings(group_)),
      scaling_table_(rope_scaling_settings(scaling_)),
      early_stop_table_(early_stop_settings(early_stop_)),
      samples_table_(samples_settings(samples_)) {}

const SettingTable* SettingsCatalog::inside(const Setting& setting) const {
  switch (setting.kind) {
    case SettingKind::kSources:
    case SettingKind::kNamedSources:
      return &source_table_;
    case SettingKind::kGroups:
      return &group_table_;
    case SettingKind::kRopeScaling:
      return &scaling_table_;
    case SettingKind::kEarlyStop:
      return &early_stop_table_;
    case SettingKind::kSamples:
      return &samples_table_;
    default:
      return nullptr;
  }
}

std::vector<SettingsCatalog::Entry> SettingsCatalog::entries() const {
  std::vector<Entry> entries;
  std::set<const SettingTable*> described;  // data.eval is as data.train
  for (const Setting& setting : config_table_.settings()) {
    entries.push_back({setting.key, &setting});
    const SettingTable* table = inside(setting);
    if (table == nullptr || !described.insert(table).second) continue;
    const bool is_list =
        setting.kind == SettingKind::kSources || setting.kind == SettingKind::kGroups;
    const char* infix = is_list ? "[]." : ".";
    for (const Setting& field : table->settings()) {
      entries.push_back({setting.key + infix + field.key, &field});
    }
  }
  return entries;
}

std::string describe_default(const Setting& setting) {
  if (setting.required) return "none, it must be given";
  if (!setting.default_note.empty()) return setting.default_note;
  if (std::holds_alternative<std::monostate>(setting.slot)) return "none";
  std::string value = setting_value(setting).dump();
  const bool is_null = value == "null" || value == "\"" + setting.null_name + "\"";
  if (is_null && !setting.null_meaning.empty()) return value + ": " + setting.null_meaning;
  return value;
}

std::string describe_use(const Setting& setting) {
  if (setting.used_key.empty()) return {};
  return setting.used_key + " is " + join(setting.used_values, " or ");
}

namespace {

// When to use each type of optimizer, and what it needs.
const std::pair<std::string_view, const char*> kTypeNotes[] = {
#define LMTRAIN_NOTE(type, name, source, note, ...) {#name, note},
    LMTRAIN_OPTIMIZERS(LMTRAIN_NOTE)
#undef LMTRAIN_NOTE
};

// The keys that this type uses and few others do.
std::vector<std::string> own_keys(const SettingTable& table, const std::string& type) {
  constexpr size_t kFew = 2;
  std::vector<std::string> keys;
  for (const Setting& setting : table.settings()) {
    const std::vector<std::string>& used = setting.used_values;
    const bool is_own = setting.used_key == "optimizer.type" && used.size() <= kFew;
    if (is_own && std::find(used.begin(), used.end(), type) != used.end())
      keys.push_back(last_component(setting.key));
  }
  return keys;
}

// A line for each type of optimizer.
std::string explained_types(const SettingTable& table) {
  const Setting& setting = *table.find("optimizer.type");
  std::string out = "  types:\n";
  for (const std::string& type : setting.choices) {
    std::string line = "    " + type;
    line.resize(std::max<size_t>(line.size() + 1, 20), ' ');
    for (const auto& [name, note] : kTypeNotes)
      if (type == name) line += note;
    const std::vector<std::string> keys = own_keys(table, type);
    if (!keys.empty()) line += "; its keys: " + join(keys, ", ");
    out += line + "\n";
  }
  return out;
}

struct FirstSetting {
  const char* key;
  const char* default_value;  // short; empty: as describe_default() says it
  const char* meaning;        // short
};
// The order is that in which a person who writes a first config needs them.
constexpr FirstSetting kFirstSettings[] = {
    {"data.train", "must be given", "files, folders, globs to train on"},
    {"data.eval", "held out", "text to evaluate on"},
    {"data.format", "", "text, lines, jsonl, parquet, ..."},
    {"init_from", "random", "weights to begin from: folder or run"},
    {"tokenizer.model", "trained", "a tokenizer.model or tokenizer.json"},
    {"tokenizer.train.vocab_size", "auto", "pieces of a trained tokenizer"},
    {"model.size", "auto", "parameters, as 3M; or its parts:"},
    {"model.hidden_size", "auto", "width of the model"},
    {"model.num_hidden_layers", "auto", "depth of the model"},
    {"sequence.max_length", "auto", "tokens that the model sees at once"},
    {"batch.tokens", "auto", "tokens of one update"},
    {"optimizer.type", "auto", "the update rule (explain lists them)"},
    {"optimizer.lr", "auto", "peak learning rate"},
    {"lr_schedule.type", "auto", "how the rate falls"},
    {"train.time", "-", "length in time, as 5min or 2h"},
    {"train.tokens", "4 passes", "length; or train.steps, train.epochs"},
    {"eval.every", "", "how often to evaluate"},
    {"checkpoint.every", "", "how often to save"},
    {"precision", "", "fp32, bf16, fp16, fp8"},
    {"run_dir", "runs/<name>", "where the run is kept"},
};

std::string explained(const SettingsCatalog::Entry& entry) {
  const Setting& setting = *entry.setting;
  std::string out = entry.key + "\n  " + setting.meaning + "\n";
  const auto line = [&](const char* label, const std::string& text) {
    if (!text.empty()) out += std::string("  ") + label + text + "\n";
  };
  line("takes:   ", describe_allowed(setting));
  if (setting.kind != SettingKind::kAccepted) line("default: ", describe_default(setting));
  line("used if: ", describe_use(setting));
  line("source:  ", setting.source);
  return out;
}

bool inside_section(const std::string& key, const std::string& section) {
  return section.empty() || key.starts_with(section + ".") || key.starts_with(section + "[].");
}

// "/data/train/0/weight", as error messages write it, is "data.train[].weight" here.
std::string catalog_key(const std::string& typed) {
  std::string dotted = typed;
  if (dotted.starts_with('/')) {
    dotted.erase(0, 1);
    std::replace(dotted.begin(), dotted.end(), '/', '.');
  }
  std::string key;
  const char* separator = "";
  for (const std::string& part : key_parts(dotted)) {
    const bool is_index =
        !part.empty() && part.find_first_not_of("0123456789") == std::string::npos;
    key += is_index ? "[]" : separator + part;
    separator = ".";
  }
  return key;
}

}  // namespace

std::string explain_first_settings() {
  const SettingsCatalog catalog;
  std::string out = "The settings that matter first, with their defaults:\n";
  const auto cell = [](const std::string& text, size_t width) {
    return text + std::string(width > text.size() ? width - text.size() : 1, ' ');
  };
  for (const FirstSetting& first : kFirstSettings) {
    const std::string value = *first.default_value != '\0'
                                  ? first.default_value
                                  : describe_default(*catalog.config().find(first.key));
    out += "  " + cell(first.key, 28) + cell(value.substr(0, value.find(';')), 14) + first.meaning +
           "\n";
  }
  return out + "One of them, or a section: lmtrain config explain KEY. All: config explain --all\n";
}

std::string explain_setting(const std::string& key) {
  const std::string dotted = catalog_key(key);
  const SettingsCatalog catalog;
  std::string out;
  for (const SettingSection& section : catalog.config().sections()) {
    if (section.key == dotted) out = section.key + "\n  " + section.meaning + "\n";
  }
  std::vector<std::string> keys;
  for (const SettingsCatalog::Entry& entry : catalog.entries()) {
    keys.push_back(entry.key);
    if (entry.key != dotted && !inside_section(entry.key, dotted)) continue;
    if (!out.empty()) out += "\n";
    out += explained(entry);
    if (entry.key == dotted && dotted == "optimizer.type") out += explained_types(catalog.config());
  }
  if (!out.empty()) return out;

  if (const RemovedSetting* removed = removed_setting(dotted))
    throw Error(ErrorKind::kUsage, std::string(removed->sentence));
  // A dotted key is compared as a whole first: its last part may stand in several sections.
  std::string near;
  if (dotted.find('.') != std::string::npos) near = nearest_word(dotted, keys);
  if (near.empty()) near = nearest_key(dotted, "", catalog.config());
  throw Error(ErrorKind::kUsage, "there is no setting \"" + key + "\"" +
                                     (near.empty() ? "" : "; did you mean \"" + near + "\"?") +
                                     " (`config explain --all` explains all)");
}

}  // namespace lmtrain
