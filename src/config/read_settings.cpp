#include "config/read_settings.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>

#include "base/text.h"
#include "base/variables.h"
#include "config/digest.h"
#include "config/removed_settings.h"
#include "config/units.h"

namespace lmtrain {
namespace {

using Type = JsonNode::Type;

bool is_name(const std::string& text) {
  return !text.empty() && text.find('/') == std::string::npos && text != "." && text != "..";
}

// Returns the words as JSON strings, without empty ones.
std::vector<std::string> quoted(std::vector<std::string> words) {
  std::erase(words, "");
  for (std::string& word : words) word.insert(0, 1, '"').push_back('"');
  return words;
}

// Describes a number outside the range of a setting. describe_allowed() does not name a maximum
// that only the number format sets, so this does.
std::string out_of_range(const Setting& setting, double value) {
  constexpr double kLargestInteger = 9223372036854774784.0;  // the last double that is an int64_t
  const bool is_count =
      setting.kind != SettingKind::kNumber && setting.kind != SettingKind::kDuration;
  const double high =
      is_count ? std::min(setting.bounds.high, kLargestInteger) : setting.bounds.high;
  if (value <= high || high < 0x1p53 || !std::isfinite(high)) return "is out of range";
  const bool is_whole = is_count && setting.bounds.high > kLargestInteger;
  return str("is too large: at most ",
             is_whole ? std::to_string(INT64_MAX) : printed("%.0f", high));
}

}  // namespace

std::optional<std::string> expand_variables(const std::string& text, std::string* problem) {
  ReplacedVariables replaced = replace_variables(text);
  if (replaced.not_utf8) {
    *problem = "names the environment variable " + printable(*replaced.not_utf8) +
               ", whose value is not UTF-8";
  } else if (replaced.unset) {
    *problem =
        "names the environment variable " + printable(*replaced.unset) + ", which is not set";
  } else if (!replaced.is_closed) {
    *problem = "has a ${ without }";
  } else {
    return std::move(replaced.text);
  }
  return std::nullopt;
}

void SettingReader::problem(const std::string& where, const std::string& pointer,
                            const std::string& what) {
  problems_.push_back(where + ": " + (pointer.empty() ? "" : pointer + ": ") + what);
}

void SettingReader::wrong(const JsonNode& node, const Setting& setting, const std::string& pointer,
                          const std::string& what, const std::vector<std::string>& meant) {
  bad_.insert(setting.key);
  // The probable meaning is the text itself, so its unit is right and its number is wrong.
  const bool is_number_wrong =
      std::find(meant.begin(), meant.end(), quote_json(node)) != meant.end();
  const std::string advice =
      is_number_wrong || meant.empty() ? "" : "; did you mean " + join(meant, " or ") + "?";
  problem(node.where, pointer,
          str(quote_json(node), " ",
              is_number_wrong ? "has a number that is too large or not whole" : what,
              "; allowed: ", describe_allowed(setting), advice));
}

void SettingReader::read_section(const JsonNode& object, const SettingTable& table,
                                 const std::string& section, const std::string& pointer) {
  origins_.by_key[section] = object.where;
  if (!object.is(Type::kObject)) {
    problem(object.where, pointer, quote_json(object) + " is not an object; allowed: { ... }");
    return;
  }
  if (pointer.empty()) is_of_run_ = object.find(kDigestKey) != nullptr;
  if (const JsonNode* positions = object.find("max_position_embeddings"))
    max_positions_ = positions->integer;
  for (const JsonMember& member : object.members) {
    const std::string key = join_key(section, member.key);
    const std::string below = pointer + "/" + pointer_component(member.key);
    // A dot in a key would otherwise reach into another section.
    const bool plain = member.key.find('.') == std::string::npos;
    if (plain && table.is_section(key)) {
      read_section(member.value, table, key, below);
    } else if (const Setting* setting = plain ? table.find(key) : nullptr) {
      if (!member.value.is(Type::kNull)) origins_.by_key[key] = member.value.where;
      read(member.value, *setting, below);
    } else if (unknown_ == UnknownKeys::kError) {
      unknown_key(member, table, section, below);
    }
  }
  // Last, when what it may contradict has been read.
  if (const JsonNode* rope = object.find("rope_parameters");
      rope != nullptr && table.find(join_key(section, "rope_parameters")) != nullptr) {
    read_rope_parameters(*rope, table, section, pointer);
  }
}

void SettingReader::unknown_key(const JsonMember& member, const SettingTable& table,
                                const std::string& section, const std::string& pointer) {
  if (const RemovedSetting* removed = removed_setting(join_key(section, member.key))) {
    if (!is_of_run_ || !is_old_default(*removed, member.value))
      problem(member.key_where, pointer, std::string(removed->sentence));
    return;
  }
  // The search below takes a millisecond; a file of another kind has thousands of keys.
  constexpr size_t kMostExplained = 20;
  constexpr size_t kLongestKey = 64;
  if (++num_unknown_ > kMostExplained || member.key.size() > kLongestKey)
    return problem(member.key_where, pointer, "unknown key");
  const std::string near = nearest_key(member.key, section, table);
  if (!near.empty()) {
    problem(member.key_where, pointer, "unknown key; did you mean \"" + near + "\"?");
    return;
  }
  std::vector<std::string> known;
  const auto add = [&](const std::string& key) {
    if (section_of(key) == section) known.push_back(last_component(key));
  };
  for (const Setting& setting : table.settings()) {
    if (setting.kind != SettingKind::kAccepted) add(setting.key);
  }
  for (const SettingSection& other : table.sections()) add(other.key);
  constexpr size_t kMostNamed = 6;
  if (known.size() <= kMostNamed) {
    problem(member.key_where, pointer, "unknown key; known here: " + join(known, ", "));
    return;
  }
  constexpr size_t kNearest = 3;
  problem(member.key_where, pointer,
          str("unknown key; the nearest of ", known.size(), " known here: ",
              join(most_similar_words(lower_case(member.key), known, kNearest), ", "),
              "; all: lmtrain config explain ", section.empty() ? "--all" : section));
}

template <class T>
void SettingReader::read_list(const JsonNode& node, const Setting& setting,
                              const std::string& pointer, SettingKind kind) {
  if (!node.is(Type::kArray)) return wrong(node, setting, pointer, "is not a list");
  T value{};
  std::vector<T> values;
  Setting item = setting;
  item.kind = kind;
  item.slot = &value;
  item.nullable = false;  // null may stand for the list, but for no item of it
  for (size_t i = 0; i < node.items.size(); ++i) {
    read(node.items[i], item, str(pointer, '/', i));
    values.push_back(value);
  }
  if (!bad(setting.key)) store(setting.slot, values);
}

void SettingReader::read(const JsonNode& node, const Setting& setting, const std::string& pointer) {
  if (setting.kind != SettingKind::kAccepted && read_null(node, setting)) return;
  switch (setting.kind) {
    case SettingKind::kBool:
      if (!node.is(Type::kBool)) return wrong(node, setting, pointer, "is not true or false");
      return store<bool>(setting.slot, node.boolean);
    case SettingKind::kInteger:
      return read_integer(node, setting, pointer);
    case SettingKind::kNumber:
      return read_number(node, setting, pointer);
    case SettingKind::kText:
    case SettingKind::kName:
    case SettingKind::kPath:
    case SettingKind::kDevice:
      return read_text(node, setting, pointer);
    case SettingKind::kChoice:
      return read_choice(node, setting, pointer);
    case SettingKind::kTokens:
    case SettingKind::kBytes:
    case SettingKind::kDuration:
      return read_amount(node, setting, pointer);
    case SettingKind::kTrainingDuration:
      return read_training_duration(node, setting, pointer);
    case SettingKind::kNumbers:
      return read_list<double>(node, setting, pointer, SettingKind::kNumber);
    case SettingKind::kIntegers:
      return read_list<int64_t>(node, setting, pointer, SettingKind::kInteger);
    case SettingKind::kTrainingDurations:
      return read_list<TrainingDuration>(node, setting, pointer, SettingKind::kTrainingDuration);
    case SettingKind::kTexts:
      return read_texts(node, setting, pointer);
    case SettingKind::kSources:
    case SettingKind::kNamedSources:
      return read_sources(node, setting, pointer);
    case SettingKind::kGroups:
      return read_groups(node, setting, pointer);
    case SettingKind::kRopeScaling:
      return read_rope_scaling(node, setting, pointer);
    case SettingKind::kEarlyStop:
      return read_object<EarlyStopConfig>(node, early_stop_settings, setting, pointer);
    case SettingKind::kSamples:
      return read_object<SamplesConfig>(node, samples_settings, setting, pointer);
    case SettingKind::kRopeParameters:
      return;  // by read_section, at its end
    case SettingKind::kAccepted:
      return read_accepted(node, setting, pointer);
  }
}

bool SettingReader::read_null(const JsonNode& node, const Setting& setting) {
  const bool named =
      !setting.null_name.empty() && node.is(Type::kString) && node.text == setting.null_name;
  if (!setting.nullable || !(named || node.is(Type::kNull))) return false;
  std::visit(
      [](auto slot) {
        // A plain slot whose null follows another setting keeps what it has; see resolve_defaults.
        if constexpr (requires { slot->reset(); }) slot->reset();
      },
      setting.slot);
  origins_.by_key.erase(setting.key);
  return true;
}

template <class T>
void SettingReader::store_number(const JsonNode& node, const Setting& setting,
                                 const std::string& pointer, T number) {
  const auto value = static_cast<double>(number);
  if (!setting.bounds.contains(value))
    return wrong(node, setting, pointer, out_of_range(setting, value));
  store(setting.slot, number);
}

void SettingReader::read_integer(const JsonNode& node, const Setting& setting,
                                 const std::string& pointer) {
  if (!node.is(Type::kNumber)) {
    // "10K" where a plain count is wanted.
    const std::optional<int64_t> count =
        node.is(Type::kString) ? parse_tokens(node.text) : std::nullopt;
    return wrong(
        node, setting, pointer, "is not an integer",
        count ? std::vector<std::string>{std::to_string(*count)} : std::vector<std::string>());
  }
  if (!node.integer) {
    const bool fraction = std::isfinite(node.number) && node.number != std::trunc(node.number);
    return wrong(node, setting, pointer,
                 fraction ? "is not an integer" : out_of_range(setting, node.number));
  }
  store_number(node, setting, pointer, *node.integer);
}

void SettingReader::read_number(const JsonNode& node, const Setting& setting,
                                const std::string& pointer) {
  if (!node.is(Type::kNumber)) return wrong(node, setting, pointer, "is not a number");
  if (!std::isfinite(node.number)) {
    return wrong(node, setting, pointer, "does not fit a 64-bit floating-point number");
  }
  store_number(node, setting, pointer, node.number);
}

void SettingReader::read_text(const JsonNode& node, const Setting& setting,
                              const std::string& pointer) {
  if (!node.is(Type::kString)) return wrong(node, setting, pointer, "is not text");
  std::string text = node.text;
  if (setting.kind == SettingKind::kDevice && !is_device_name(text)) {
    return wrong(node, setting, pointer, "is not a device",
                 quoted({nearest_choice(text, {"auto", "cpu", "cuda", "cuda:0"})}));
  }
  if (setting.kind == SettingKind::kName && !is_name(text)) {
    return wrong(node, setting, pointer, "cannot name a folder");
  }
  if (setting.kind == SettingKind::kPath && !expand_path(node, pointer, &text)) {
    bad_.insert(setting.key);
    return;
  }
  store(setting.slot, text);
}

void SettingReader::read_choice(const JsonNode& node, const Setting& setting,
                                const std::string& pointer) {
  if (!node.is(Type::kString)) return wrong(node, setting, pointer, "is not one of them");
  if (!std::get<ChoiceSlot>(setting.slot).assign(node.text)) {
    if (const RemovedSetting* removed = removed_value(setting.key, node.text)) {
      bad_.insert(setting.key);
      return problem(node.where, pointer, std::string(removed->sentence));
    }
    wrong(node, setting, pointer, "is not known",
          quoted({nearest_choice(node.text, setting.choices)}));
  }
}

bool SettingReader::expand_path(const JsonNode& node, const std::string& pointer,
                                std::string* path) {
  std::string what;
  const std::optional<std::string> expanded = expand_variables(node.text, &what);
  if (!expanded) {
    problem(node.where, pointer, quote_json(node) + " " + what);
    return false;
  }
  if (expanded->empty()) {
    problem(node.where, pointer, quote_json(node) + " is an empty path");
    return false;
  }
  *path = *expanded;
  return true;
}

void SettingReader::read_amount(const JsonNode& node, const Setting& setting,
                                const std::string& pointer) {
  const bool duration = setting.kind == SettingKind::kDuration;
  if (node.is(Type::kNumber)) {
    return duration ? read_number(node, setting, pointer) : read_integer(node, setting, pointer);
  }
  const bool tokens = setting.kind == SettingKind::kTokens;
  const char* what = duration ? "is not a time"
                     : tokens ? "is not a number of tokens"
                              : "is not a number of bytes";
  if (!node.is(Type::kString)) return wrong(node, setting, pointer, what);
  if (duration) {
    const std::optional<double> seconds = parse_duration(node.text);
    if (!seconds) return wrong(node, setting, pointer, what, quoted(similar_durations(node.text)));
    return store_number(node, setting, pointer, *seconds);
  }
  const std::optional<int64_t> count = tokens ? parse_tokens(node.text) : parse_bytes(node.text);
  if (!count) {
    return wrong(node, setting, pointer, what,
                 quoted(tokens ? similar_tokens(node.text) : similar_bytes(node.text)));
  }
  store_number(node, setting, pointer, *count);
}

void SettingReader::read_training_duration(const JsonNode& node, const Setting& setting,
                                           const std::string& pointer) {
  if (node.is(Type::kNumber)) {
    constexpr int64_t kMost = int64_t{1} << 53;  // as a double holds every smaller one
    if (!node.integer || *node.integer < 0 || *node.integer > kMost) {
      const bool is_large = node.integer ? *node.integer > kMost : node.number > 0x1p53;
      return wrong(node, setting, pointer,
                   is_large ? "is too large: at most 9007199254740992"
                            : "is not a whole number of at least 0");
    }
    return store(setting.slot,
                 TrainingDuration{static_cast<double>(*node.integer), setting.bare_unit});
  }
  const std::optional<TrainingDuration> parsed = node.is(Type::kString)
                                                     ? parse_training_duration(node.text)
                                                     : std::optional<TrainingDuration>();
  if (!parsed) {
    return wrong(node, setting, pointer, "is not an amount with a unit",
                 node.is(Type::kString)
                     ? quoted(similar_training_durations(node.text, setting.units))
                     : std::vector<std::string>());
  }
  if (std::find(setting.units.begin(), setting.units.end(), parsed->unit) == setting.units.end())
    return wrong(node, setting, pointer, "has a unit that this key does not take");
  store(setting.slot, *parsed);
}

void SettingReader::read_accepted(const JsonNode& node, const Setting& setting,
                                  const std::string& pointer) {
  if (setting.choices.empty()) return;
  const auto is_choice = [&](const JsonNode& value) {
    return std::any_of(setting.choices.begin(), setting.choices.end(), [&](const std::string& one) {
      return nlohmann::ordered_json::parse(one) == to_json(value);
    });
  };
  if (is_choice(node)) return;
  const bool is_list = setting.each_item && node.is(Type::kArray);
  if (is_list && std::all_of(node.items.begin(), node.items.end(), is_choice)) return;
  wrong(node, setting, pointer, "is not what lmtrain computes");
}

}  // namespace lmtrain
