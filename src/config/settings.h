// The table of settings has every key of the run configuration once, with its field in Config,
// meaning, default and range. Its rows are the add_settings() of config/config.h.
//
// `config_settings(config)` binds the table to one Config: reading, printing and explaining go
// through the table's slots. The default of a setting is its value in a default-constructed struct.
// All code that knows settings by name uses this table.
#pragma once

#include <algorithm>
#include <initializer_list>
#include <limits>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "config/config.h"

namespace lmtrain {

// A ChoiceSlot points to an enum variable, and reads and writes it by the name of its value.
class ChoiceSlot {
 public:
  template <NamedEnum Enum>
  ChoiceSlot(Enum* slot)
      : slot_(slot),
        name_([](const void* value) { return name_of(*static_cast<const Enum*>(value)); }),
        assign_([](void* value, const std::string& name) {
          const std::optional<Enum> named = value_named<Enum>(name);
          if (named) *static_cast<Enum*>(value) = *named;
          return named.has_value();
        }),
        names_([] {
          std::vector<std::string> names;
          for (const EnumName<Enum>& entry : enum_names(Enum{})) names.emplace_back(entry.name);
          return names;
        }) {}

  std::string name() const { return name_(slot_); }
  // Returns false, and changes nothing, for a name that is not among names().
  bool assign(const std::string& name) const { return assign_(slot_, name); }
  std::vector<std::string> names() const { return names_(); }

 private:
  void* slot_;
  std::string (*name_)(const void*);
  bool (*assign_)(void*, const std::string&);
  std::vector<std::string> (*names_)();
};

// The slot points to the variable that holds the setting's value. monostate: a known key without a
// value.
using SettingSlot =
    std::variant<std::monostate, bool*, int64_t*, double*, std::string*, ChoiceSlot,
                 TrainingDuration*, std::vector<double>*, std::vector<int64_t>*,
                 std::vector<TrainingDuration>*, std::optional<bool>*, std::optional<int64_t>*,
                 std::optional<double>*, std::optional<std::string>*,
                 std::optional<TrainingDuration>*, std::optional<RopeScalingConfig>*,
                 std::vector<DataSourceConfig>*, std::optional<std::vector<DataSourceConfig>>*,
                 std::vector<OptimizerGroupConfig>*, std::optional<EarlyStopConfig>*,
                 std::vector<std::string>*, std::optional<std::vector<std::string>>*,
                 std::optional<SamplesConfig>*>;

struct SettingRange {
  double low = -std::numeric_limits<double>::infinity();
  double high = std::numeric_limits<double>::infinity();
  bool low_open = false;  // low itself is excluded
  bool high_open = false;
  bool contains(double value) const;
};

struct Setting {
  std::string key;  // dotted, from the root of its table: "optimizer.lr"
  SettingSlot slot;
  SettingKind kind = SettingKind::kText;
  std::string meaning;

  SettingRange bounds;
  std::vector<std::string> choices;  // for kChoice, from the slot, and for kAccepted
  bool each_item = false;            // for kAccepted: a list of `choices` is accepted too
  bool nullable = false;
  std::string null_name;     // how null is written, "auto"; empty: null
  std::string null_meaning;  // the meaning of null, in words
  std::string default_note;  // a default that the struct cannot state
  std::vector<TrainingDuration::Unit> units;
  TrainingDuration::Unit bare_unit = TrainingDuration::Unit::kSteps;
  bool required = false;
  std::string used_key;                  // used only while the setting of this key ...
  std::vector<std::string> used_values;  // ... is one of these, as text
  std::string source;                    // the paper or program that the setting is from

  // Each of these sets one property and returns the setting, to build the table. Ranges hold for
  // numbers and for the elements of lists.
  Setting& as(SettingKind new_kind);
  Setting& range(double low, double high);  // low <= value <= high
  Setting& at_least(double low);
  Setting& above(double low);
  Setting& below(double low, double high);  // low <= value < high
  // Allows null, which stands for `meaning_of_null`. `written`, such as "auto", is another way to
  // write null. Reading null resets a slot that is a std::optional; any other slot keeps its value.
  Setting& null_is(std::string meaning_of_null, std::string written = "");
  Setting& default_is(std::string note);  // a default that the struct cannot state, in words
  Setting& in_units(std::vector<TrainingDuration::Unit> allowed, TrainingDuration::Unit bare);
  // The setting has an effect only while the setting `other` has one of `values`, as text.
  Setting& used_if(std::string other, std::vector<std::string> values);
  template <NamedEnum Enum>
  Setting& used_if(std::string other, std::initializer_list<Enum> values) {
    return used_if(std::move(other), std::vector<Enum>(values));
  }
  template <NamedEnum Enum>
  Setting& used_if(std::string other, const std::vector<Enum>& values) {
    std::vector<std::string> names;
    names.reserve(values.size());
    for (const Enum value : values) names.push_back(name_of(value));
    return used_if(std::move(other), std::move(names));
  }
  // For kAccepted: one of `values`, as JSON, or a list of them.
  Setting& lists(std::vector<std::string> values);
  Setting& from(std::string reference);  // the paper or program that the setting is from
  Setting& must_be_given();              // it has no default
};

struct SettingSection {
  std::string key;  // dotted
  std::string meaning;
};

class SettingTable {
 public:
  // The slot gives the kind, and the choices of an enum; as() narrows the kind. The reference is
  // valid until the next add().
  Setting& add(const std::string& key, SettingSlot slot, const std::string& meaning);
  // Adds a section: an object of the file that holds settings.
  void section(const std::string& key, const std::string& meaning);

  const std::vector<Setting>& settings() const { return settings_; }
  const std::vector<SettingSection>& sections() const { return sections_; }
  const Setting* find(const std::string& key) const;  // null where there is none
  bool is_section(const std::string& key) const;

 private:
  std::vector<Setting> settings_;
  std::vector<SettingSection> sections_;
};

// These return tables bound to an object, which must outlive the table. A SettingReader changes the
// object through the table.
SettingTable config_settings(Config& config);
SettingTable source_settings(DataSourceConfig& source);
SettingTable group_settings(OptimizerGroupConfig& group);
SettingTable rope_scaling_settings(RopeScalingConfig& scaling);
SettingTable early_stop_settings(EarlyStopConfig& early_stop);
SettingTable samples_settings(SamplesConfig& samples);
// The settings of `model` alone. `prefix` is "model.", or empty for transformers' config.json.
SettingTable model_settings(ModelConfig& model, const std::string& prefix);

// Returns the defaults that the table of optimizers has for a type.
OptimizerDefaults optimizer_defaults(OptimizerType type);
// Returns whether optimizer.base_width may be given with this type (follows_width of config.h).
bool takes_base_width(OptimizerType type);

// Returns the values that the setting takes, in words: "a number above 0", "bucket | pad | pack |
// concat".
std::string describe_allowed(const Setting& setting);
// Returns the value that is in the slot now, as it is written in a file; null without a slot.
nlohmann::ordered_json setting_value(const Setting& setting);
// Returns the same value as text for conditions and messages: adamw, null, 3.
std::string value_text(const Setting& setting);
// Returns why the setting has no effect with the values now in `table`, "optimizer.type is adamw";
// "" when it has an effect.
std::string why_unused(const Setting& setting, const SettingTable& table);
// Returns the known key that a person probably meant, dotted; "" when no key is near. `unknown` is
// the last part of the typed key, and `section` the dotted section it is in.
std::string nearest_key(const std::string& unknown, const std::string& section,
                        const SettingTable& table);
// Returns the choice that a person probably meant, by another program's name for it ("float16" is
// "fp16") or by its spelling; "" when no choice is near.
std::string nearest_choice(const std::string& word, const std::vector<std::string>& choices);
// Returns whether the text is auto, cpu, cuda, or cuda:N with N from 0 to 127 and no leading zero.
bool is_device_name(const std::string& text);
// Returns the JSON pointer of a dotted key: "/optimizer/lr" for "optimizer.lr".
std::string pointer_of(const std::string& key);
// Returns the dotted key of `name` in a section; the section "" is the root.
std::string join_key(const std::string& section, const std::string& name);
// These take a dotted key apart: "optimizer" and "lr" for "optimizer.lr", "" and "seed" for "seed".
std::string section_of(const std::string& key);
std::string last_component(const std::string& key);

// Names of sets of held-out documents, as data.eval gives them. A name is a part of keys:
// "eval_loss/NAME" in metrics.jsonl, "eval/loss/NAME" in TensorBoard. Other names are taken:
// length_N there is a bucket of document lengths (eval/evaluate.h), and "path" and "weight" are
// keys of a source.

// The rule of is_set_name() as a regular expression of ECMAScript, for the JSON Schema.
inline constexpr const char* kSetNamePattern = "^(?!length_[0-9]+$|path$|weight$)[A-Za-z0-9_.-]+$";
inline constexpr std::string_view kLengthPrefix = "length_";

inline bool is_set_character(char c) {
  return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '_' ||
         c == '-' || c == '.';
}

inline bool is_length_name(std::string_view name) {
  if (!name.starts_with(kLengthPrefix) || name.size() == kLengthPrefix.size()) return false;
  const std::string_view number = name.substr(kLengthPrefix.size());
  return std::all_of(number.begin(), number.end(), [](char c) { return c >= '0' && c <= '9'; });
}

// Returns whether a set may have this name: A-Z, a-z, 0-9, "_", "-" and ".", but not length_N,
// "path" or "weight".
inline bool is_set_name(std::string_view name) {
  return !name.empty() && std::all_of(name.begin(), name.end(), is_set_character) &&
         !is_length_name(name) && name != "path" && name != "weight";
}

}  // namespace lmtrain
