// How a setting is built, described and found. The rows of the table are in config.h.
#include "config/settings.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/text.h"

namespace lmtrain {
namespace {

using Json = nlohmann::ordered_json;

// Returns the kind of a setting by the type of its slot.
struct KindOf {
  SettingKind operator()(std::monostate) const { return SettingKind::kAccepted; }
  SettingKind operator()(const bool*) const { return SettingKind::kBool; }
  SettingKind operator()(const int64_t*) const { return SettingKind::kInteger; }
  SettingKind operator()(const double*) const { return SettingKind::kNumber; }
  SettingKind operator()(const std::string*) const { return SettingKind::kText; }
  SettingKind operator()(const ChoiceSlot&) const { return SettingKind::kChoice; }
  SettingKind operator()(const TrainingDuration*) const { return SettingKind::kTrainingDuration; }
  SettingKind operator()(const std::vector<double>*) const { return SettingKind::kNumbers; }
  SettingKind operator()(const std::vector<int64_t>*) const { return SettingKind::kIntegers; }
  SettingKind operator()(const std::vector<TrainingDuration>*) const {
    return SettingKind::kTrainingDurations;
  }
  SettingKind operator()(const std::vector<std::string>*) const { return SettingKind::kTexts; }
  SettingKind operator()(const std::vector<DataSourceConfig>*) const {
    return SettingKind::kSources;
  }
  SettingKind operator()(const std::optional<std::vector<DataSourceConfig>>*) const {
    return SettingKind::kNamedSources;
  }
  SettingKind operator()(const std::vector<OptimizerGroupConfig>*) const {
    return SettingKind::kGroups;
  }
  SettingKind operator()(const RopeScalingConfig*) const { return SettingKind::kRopeScaling; }
  SettingKind operator()(const EarlyStopConfig*) const { return SettingKind::kEarlyStop; }
  SettingKind operator()(const SamplesConfig*) const { return SettingKind::kSamples; }
  template <class T>
  SettingKind operator()(const std::optional<T>*) const {
    return (*this)(static_cast<const T*>(nullptr));
  }
};

std::string number_text(double value) {
  if (value == std::trunc(value) && std::abs(value) <= 0x1p53) {
    return str(static_cast<int64_t>(value));
  }
  return str(value);
}

std::string range_text(const SettingRange& range) {
  const bool has_low = std::isfinite(range.low);
  const bool has_high = range.high < 0x1p53;  // larger limits are the format's, not worth a word
  if (has_low && has_high) {
    return (range.low_open ? " above " : " from ") + number_text(range.low) +
           (range.high_open ? " to below " : " to ") + number_text(range.high);
  }
  if (has_low) return (range.low_open ? " above " : " of at least ") + number_text(range.low);
  return has_high ? (range.high_open ? " below " : " of at most ") + number_text(range.high) : "";
}

std::string duration_text(const Setting& setting) {
  std::vector<std::string> examples;
  for (const TrainingDuration::Unit unit : setting.units) {
    switch (unit) {
      case TrainingDuration::Unit::kSteps:
        examples.emplace_back("\"500 steps\"");
        break;
      case TrainingDuration::Unit::kTokens:
        examples.emplace_back("\"10M\" tokens");
        break;
      case TrainingDuration::Unit::kPercent:
        examples.emplace_back("\"2%\" of the run");
        break;
      case TrainingDuration::Unit::kSeconds:
        examples.emplace_back("\"90s\" \"30min\" \"2h\"");
        break;
      case TrainingDuration::Unit::kEpochs:
        examples.emplace_back("\"1.5 epochs\"");
        break;
    }
  }
  const bool steps = setting.bare_unit == TrainingDuration::Unit::kSteps;
  return std::string("a number of ") + (steps ? "steps" : "tokens") + ", or text such as " +
         join(examples, ", ");
}

std::string allowed_without_null(const Setting& setting) {
  const std::string range = range_text(setting.bounds);
  switch (setting.kind) {
    case SettingKind::kBool:
      return "true or false";
    case SettingKind::kInteger:
      return "an integer" + range;
    case SettingKind::kNumber:
      return "a number" + range;
    case SettingKind::kText:
      return "text";
    case SettingKind::kName:
      return "text that can name a folder (no \"/\")";
    case SettingKind::kPath:
      return "a path as text, ${VAR} is expanded";
    case SettingKind::kChoice:
      return join(setting.choices, " | ");
    case SettingKind::kDevice:
      return "auto | cpu | cuda | cuda:N";
    case SettingKind::kTokens:
      return "a number of tokens" + range + ", or text such as \"10M\" \"2B\" \"64Ki\"";
    case SettingKind::kBytes:
      return "a number of bytes" + range + ", or text such as \"100MB\" \"1GiB\"";
    case SettingKind::kDuration:
      return "seconds" + range + ", or text such as \"90s\" \"30min\" \"2h\"";
    case SettingKind::kTrainingDuration:
      return duration_text(setting);
    case SettingKind::kNumbers:
      return "a list of numbers" + range;
    case SettingKind::kIntegers:
      return "a list of integers" + range;
    case SettingKind::kTrainingDurations:
      return "a list, each " + duration_text(setting);
    case SettingKind::kTexts:
      return "a list of texts, or one text";
    case SettingKind::kSources:
      return R"(a list of paths and of {"path": ..., "weight": ...})";
    case SettingKind::kNamedSources:
      return R"(a list of paths and of {"path": ..., "weight": ...}, or named sets {"NAME": )"
             R"(such a list, ...})";
    case SettingKind::kGroups:
      return R"(a list of {"pattern": ..., "lr": ..., "weight_decay": ...})";
    case SettingKind::kRopeScaling:
      return R"({"rope_type": "linear", "llama3" or "yarn", "factor": ..., )"
             R"("original_max_position_embeddings": ..., ...})";
    case SettingKind::kEarlyStop:
      return R"({"patience": ..., "min_delta": ...})";
    case SettingKind::kSamples:
      return R"({"prompts": [...], "max_tokens": ...})";
    case SettingKind::kRopeParameters:
      return R"({"rope_theta": ..., "rope_type": "default", "linear", "llama3" or "yarn", ...})";
    case SettingKind::kAccepted:
      return setting.choices.empty()
                 ? "any value"
                 : join(setting.choices, " | ") + (setting.each_item ? ", or a list of these" : "");
  }
  return {};
}

std::string lower_snake(std::string_view text) {
  std::string out = lower_case(text);
  std::replace(out.begin(), out.end(), '-', '_');
  return out;
}

// Names that people coming from HF Trainer, torchtitan, nanoGPT or Marian type.
constexpr std::pair<const char*, const char*> kForeignNames[] = {
    {"learning_rate", "optimizer.lr"},
    {"warmup_steps", "lr_schedule.warmup"},
    {"warmup_ratio", "lr_schedule.warmup"},
    {"lr_scheduler_type", "lr_schedule.type"},
    {"max_steps", "train.steps"},
    {"max_iters", "train.steps"},
    {"num_train_epochs", "train.epochs"},
    {"max_grad_norm", "clip.max"},
    {"grad_clip", "clip.max"},
    {"clip_norm", "clip.max"},
    {"adam_beta1", "optimizer.betas"},
    {"adam_beta2", "optimizer.betas"},
    {"adam_epsilon", "optimizer.eps"},
    {"optim", "optimizer.type"},
    {"batch_size", "batch.tokens"},
    {"per_device_train_batch_size", "batch.micro_tokens"},
    {"gradient_accumulation_steps", "batch.micro_tokens"},
    {"seq_len", "sequence.max_length"},
    {"block_size", "sequence.max_length"},
    {"context_length", "sequence.max_length"},
    {"packing", "sequence.batching"},
    {"output_dir", "run_dir"},
    {"save_steps", "checkpoint.every"},
    {"save_total_limit", "checkpoint.keep"},
    {"eval_steps", "eval.every"},
    {"logging_steps", "log.every"},
    {"torch_compile", "compile"},
    {"gradient_checkpointing", "model.activation_checkpointing"},
    {"n_layer", "model.num_hidden_layers"},
    {"n_head", "model.num_attention_heads"},
    {"n_embd", "model.hidden_size"},
    {"data_seed", "data.seed"},
};

// The same for values.
constexpr std::pair<const char*, const char*> kForeignChoices[] = {
    {"float16", "fp16"},  {"half", "fp16"},
    {"f16", "fp16"},      {"float32", "fp32"},
    {"float", "fp32"},    {"single", "fp32"},
    {"f32", "fp32"},      {"full", "fp32"},
    {"bfloat16", "bf16"}, {"bfloat", "bf16"},
    {"float8", "fp8"},    {"gpu", "cuda"},
    {"adam", "adamw"},    {"warmup_stable_decay", "wsd"},
};

template <class Settings>
SettingTable table_of(Settings& settings) {
  SettingTable table;
  add_settings(table, settings);
  return table;
}

}  // namespace

bool SettingRange::contains(double value) const {
  return (low_open ? value > low : value >= low) && (high_open ? value < high : value <= high);
}

Setting& Setting::as(SettingKind new_kind) {
  kind = new_kind;
  return *this;
}
Setting& Setting::range(double low, double high) {
  bounds = {.low = low, .high = high};
  return *this;
}
Setting& Setting::at_least(double low) {
  bounds = {.low = low};
  return *this;
}
Setting& Setting::above(double low) {
  bounds = {.low = low, .low_open = true};
  return *this;
}
Setting& Setting::below(double low, double high) {
  bounds = {.low = low, .high = high, .high_open = true};
  return *this;
}
Setting& Setting::null_is(std::string meaning_of_null, std::string written) {
  nullable = true;
  null_meaning = std::move(meaning_of_null);
  null_name = std::move(written);
  return *this;
}
Setting& Setting::default_is(std::string note) {
  default_note = std::move(note);
  return *this;
}
Setting& Setting::in_units(std::vector<TrainingDuration::Unit> allowed,
                           TrainingDuration::Unit bare) {
  units = std::move(allowed);
  bare_unit = bare;
  return *this;
}
Setting& Setting::used_if(std::string other, std::vector<std::string> values) {
  used_key = std::move(other);
  used_values = std::move(values);
  return *this;
}
Setting& Setting::lists(std::vector<std::string> values) {
  each_item = true;
  choices = std::move(values);
  return *this;
}
Setting& Setting::from(std::string reference) {
  source = std::move(reference);
  return *this;
}
Setting& Setting::must_be_given() {
  required = true;
  return *this;
}

Setting& SettingTable::add(const std::string& key, SettingSlot slot, const std::string& meaning) {
  Setting& setting = settings_.emplace_back();
  setting.key = key;
  setting.slot = slot;
  setting.kind = std::visit(KindOf{}, slot);
  if (const auto* choice = std::get_if<ChoiceSlot>(&slot)) setting.choices = choice->names();
  setting.meaning = meaning;
  return setting;
}

void SettingTable::section(const std::string& key, const std::string& meaning) {
  sections_.push_back({key, meaning});
}

const Setting* SettingTable::find(const std::string& key) const {
  const auto found = std::find_if(settings_.begin(), settings_.end(),
                                  [&](const Setting& setting) { return setting.key == key; });
  return found == settings_.end() ? nullptr : &*found;
}

bool SettingTable::is_section(const std::string& key) const {
  return std::any_of(sections_.begin(), sections_.end(),
                     [&](const SettingSection& section) { return section.key == key; });
}

std::string describe_allowed(const Setting& setting) {
  std::string allowed = allowed_without_null(setting);
  if (!setting.nullable) return allowed;
  return allowed + ", or " + (setting.null_name.empty() ? "null" : "\"" + setting.null_name + "\"");
}

std::string value_text(const Setting& setting) {
  const Json value = setting_value(setting);
  return value.is_string() ? value.get<std::string>() : value.dump();
}

std::string why_unused(const Setting& setting, const SettingTable& table) {
  if (setting.used_key.empty()) return {};
  const Setting* other = table.find(setting.used_key);
  const std::string value = value_text(*other);
  const auto& used = setting.used_values;
  // A setting that depends on one without effect has none either.
  if (std::find(used.begin(), used.end(), value) != used.end()) return why_unused(*other, table);
  return used == std::vector<std::string>{"null"} ? setting.used_key + " is given"
                                                  : setting.used_key + " is " + value;
}

std::string nearest_key(const std::string& unknown, const std::string& section,
                        const SettingTable& table) {
  std::string word = lower_snake(unknown);
  std::vector<std::string> keys, leaves, siblings;
  const auto consider = [&](const std::string& key) {
    keys.push_back(key);
    leaves.push_back(last_component(key));
    if (section_of(key) == section) siblings.push_back(leaves.back());
  };
  for (const SettingSection& other : table.sections()) consider(other.key);
  for (const Setting& setting : table.settings()) consider(setting.key);

  const auto first_key_of = [&](const std::string& leaf) {
    const auto found = std::find(leaves.begin(), leaves.end(), leaf);
    return found == leaves.end() ? "" : keys[static_cast<size_t>(found - leaves.begin())];
  };
  if (std::find(siblings.begin(), siblings.end(), word) != siblings.end())
    return join_key(section, word);
  if (table.find(word) != nullptr) return word;
  for (const auto& [name, key] : kForeignNames) {
    if (word == name && table.find(key) != nullptr) return key;
  }
  if (std::string same = first_key_of(word); !same.empty()) return same;
  if (const std::string near = nearest_word(word, siblings); !near.empty())
    return join_key(section, near);
  return first_key_of(nearest_word(word, leaves));
}

std::string nearest_choice(const std::string& word, const std::vector<std::string>& choices) {
  const std::string lower = lower_snake(word);
  for (const auto& [name, choice] : kForeignChoices) {
    if (lower == name && std::find(choices.begin(), choices.end(), choice) != choices.end())
      return choice;
  }
  return nearest_word(lower, choices);
}

bool is_device_name(const std::string& text) {
  if (text == "auto" || text == "cpu" || text == "cuda") return true;
  if (!text.starts_with("cuda:")) return false;
  // libtorch holds the index in eight bits.
  int index = 0;
  const auto [end, error] = std::from_chars(text.data() + 5, text.data() + text.size(), index);
  return error == std::errc() && index >= 0 && index <= INT8_MAX && text == str("cuda:", index);
}

std::string pointer_of(const std::string& key) {
  std::string pointer = "/" + key;
  std::replace(pointer.begin(), pointer.end(), '.', '/');
  return key.empty() ? "" : pointer;
}

std::string join_key(const std::string& section, const std::string& name) {
  return section.empty() ? name : section + "." + name;
}

std::string section_of(const std::string& key) {
  const size_t dot = key.rfind('.');
  return dot == std::string::npos ? std::string() : key.substr(0, dot);
}

std::string last_component(const std::string& key) { return key.substr(key.rfind('.') + 1); }

SettingTable config_settings(Config& config) { return table_of(config); }
SettingTable source_settings(DataSourceConfig& source) { return table_of(source); }
SettingTable group_settings(OptimizerGroupConfig& group) { return table_of(group); }
SettingTable rope_scaling_settings(RopeScalingConfig& scaling) { return table_of(scaling); }
SettingTable early_stop_settings(EarlyStopConfig& early_stop) { return table_of(early_stop); }
SettingTable samples_settings(SamplesConfig& samples) { return table_of(samples); }
SettingTable model_settings(ModelConfig& model, const std::string& prefix) {
  SettingTable table;
  add_settings(table, model, prefix);
  return table;
}

OptimizerDefaults optimizer_defaults(OptimizerType type) {
  switch (type) {
#define LMTRAIN_DEFAULTS(value, name, source, note, ...) \
  case OptimizerType::value:                             \
    return OptimizerDefaults{__VA_ARGS__};
    LMTRAIN_OPTIMIZERS(LMTRAIN_DEFAULTS)
#undef LMTRAIN_DEFAULTS
  }
  throw Error(ErrorKind::kInternal, "optimizer.type is one without defaults");
}

bool takes_base_width(OptimizerType type) { return optimizer_defaults(type).follows_width; }

std::vector<OptimizerType> optimizers_with(bool OptimizerDefaults::*flag) {
  std::vector<OptimizerType> types;
  for (const auto& [type, name] : enum_names(OptimizerType{}))
    if (optimizer_defaults(type).*flag) types.push_back(type);
  return types;
}

std::string by_optimizer(const std::function<std::string(const OptimizerDefaults&)>& text) {
  const std::string usual = text(OptimizerDefaults{});
  std::string all = usual;
  for (const auto& [type, name] : enum_names(OptimizerType{})) {
    const std::string own = text(optimizer_defaults(type));
    if (own != usual) all += str("; ", name, " ", own);
  }
  return all;
}

std::string text_of(double number) {
  std::string text = str(number);
  if (const size_t exponent = text.find("e-0"); exponent != std::string::npos)
    text.erase(exponent + 2, 1);
  return text;
}

std::string text_of(const std::vector<double>& numbers) {
  std::vector<std::string> texts;
  texts.reserve(numbers.size());
  for (const double number : numbers) texts.push_back(text_of(number));
  return texts.empty() ? "none" : "[" + join(texts, ", ") + "]";
}

std::string optimizer_sources() {
#define LMTRAIN_SOURCE(type, name, source, note, ...) source,
  return join(std::vector<std::string>{LMTRAIN_OPTIMIZERS(LMTRAIN_SOURCE)}, "; ");
#undef LMTRAIN_SOURCE
}

}  // namespace lmtrain
