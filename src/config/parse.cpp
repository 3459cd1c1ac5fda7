#include "config/parse.h"

#include <algorithm>
#include <charconv>
#include <filesystem>

#include "base/error.h"
#include "base/examine.h"
#include "base/read_file.h"
#include "base/text.h"
#include "base/utf8.h"
#include "config/check.h"
#include "config/init_from.h"
#include "config/json_reader.h"
#include "config/read_settings.h"
#include "config/recipe.h"

namespace lmtrain {
namespace {

// A file of another kind may have thousands of problems.
[[noreturn]] void throw_problems(std::vector<std::string> problems, ErrorKind kind) {
  constexpr size_t kMost = 50;
  if (problems.size() > kMost) {
    const size_t more = problems.size() - kMost;
    problems.resize(kMost);
    problems.push_back(str("and ", more, " more problems"));
  }
  throw Error(kind, join(problems, "\n"));
}

std::string default_name(const std::string& origin) {
  const std::string stem = std::filesystem::path(origin).stem().string();
  return stem.empty() || stem == "." || stem == ".." || !is_utf8(stem) ? "run" : stem;
}

// Defaults that follow another setting.
void resolve_defaults(Config& config) {
  const ConfigOrigins& origins = config.origins;
  OptimizerConfig& optimizer = config.optimizer;
  const OptimizerDefaults of_type = optimizer_defaults(optimizer.type);
  const auto follow = [&](const char* key, auto& value, const auto& otherwise) {
    if (!origins.given(key)) value = otherwise;
  };
  follow("optimizer.lr", optimizer.lr, of_type.lr);
  follow("optimizer.betas", optimizer.betas, of_type.betas);
  follow("optimizer.eps", optimizer.eps, of_type.eps);
  follow("optimizer.weight_decay", optimizer.weight_decay, of_type.weight_decay);
  follow("optimizer.momentum", optimizer.momentum, of_type.momentum);
  if (!origins.given("sequence.schedule.type") && !config.sequence.has_buckets()) {
    config.sequence.schedule.type = LengthScheduleType::kConstant;
  }
  const bool other_length =
      origins.given("train.steps") || origins.given("train.epochs") || origins.given("train.time");
  if (other_length && !origins.given("train.tokens")) config.train.tokens.reset();
  if (!origins.given("model.num_key_value_heads") && !config.init_from) {
    config.model.num_key_value_heads = config.model.num_attention_heads;
  }
}

// Throws for a text to train on that was typed in place of a config, which begins with "{" or a
// comment. The JSON reader judges an empty text, and a file named .json.
void require_config(std::string_view text, const std::string& path) {
  const std::string extension = std::filesystem::path(path).extension().string();
  const size_t first = text.find_first_not_of(" \t\r\n");
  const bool begins_well =
      first == std::string_view::npos || text[first] == '{' || text[first] == '/';
  if (extension == ".json" || (begins_well && extension != ".jsonl")) return;
  constexpr size_t kShown = 40;
  std::string_view line = first == std::string_view::npos ? text : text.substr(first);
  line = line.substr(0, std::min(line.find_first_of("\r\n"), kShown));
  line = line.substr(0, valid_utf8_prefix(line));
  throw Error(ErrorKind::kConfig,
              path + ": is no config, which is a JSON object; it begins with \"" + printable(line) +
                  "\". To train on it, write a config that names it, as own.json: "
                  "{ \"data\": { \"train\": \"" +
                  path + "\" } }; then: lmtrain train own.json");
}

std::string label_of(const std::string& override) {
  constexpr size_t kLongest = 100;
  const std::string whole = is_utf8(override) ? printable(override) : "(not UTF-8)";
  return str("--set ", utf8_prefix(whole, kLongest), whole.size() > kLongest ? "..." : "");
}

// Returns whether a setting of the object `section` has an effect, or says what lmtrain computes.
bool has_effect(const Setting& setting, const JsonNode& section) {
  if (setting.kind != SettingKind::kAccepted || !setting.choices.empty()) return true;
  if (setting.key != "model.max_position_embeddings") return false;
  // It is the length that a scaling of positions begins from.
  const auto is_given = [&](const char* key) {
    const JsonNode* node = section.find(key);
    return node != nullptr && !node->is(JsonNode::Type::kNull);
  };
  return is_given("rope_scaling") || is_given("rope_parameters");
}

// A file may hold keys that have no effect, such as transformers' own; who types one expects one.
void refuse_without_effect(const std::vector<std::string>& overrides, const JsonNode& root,
                           std::vector<std::string>& problems) {
  Config defaults;
  const SettingTable table = config_settings(defaults);
  for (const std::string& override : overrides) {
    const JsonNode* section = &root;
    std::string key;
    for (const std::string& part : key_parts(override.substr(0, override.find('=')))) {
      key = join_key(key, part);
      const Setting* setting = table.find(key);
      if (setting != nullptr && !has_effect(*setting, *section)) {
        problems.push_back(
            str(label_of(override), ": ", pointer_of(key), ": has no effect: ", setting->meaning));
      }
      section = section->find(part);
      if (section == nullptr) break;
    }
  }
}

}  // namespace

std::string ConfigOrigins::origin(std::string key) const {
  while (true) {
    if (const auto found = by_key.find(key); found != by_key.end()) return found->second;
    if (key.empty()) return {};
    key = section_of(key);
  }
}

Config parse_config(std::string_view text, const std::string& origin,
                    const std::vector<std::string>& overrides, ConfigAuthor author,
                    const CheckpointOfRun& checkpoint_of_run) {
  JsonReadResult json = read_json_file_text(text, origin);
  std::vector<std::string> problems = std::move(json.problems);
  if (!json.root) throw_problems(problems, ErrorKind::kConfig);
  apply_overrides(overrides, *json.root, problems);
  refuse_without_effect(overrides, *json.root, problems);

  Config config;
  config.name = default_name(origin);
  const SettingTable table = config_settings(config);
  InitFromFolder folder;
  if (author == ConfigAuthor::kPerson) folder = open_init_from(*json.root, checkpoint_of_run);
  if (folder.model) config.model = *folder.model;

  SettingReader reader(SettingReader::UnknownKeys::kError);
  reader.read_section(*json.root, table, "", "");
  config.origins = reader.origins();
  config.origins.by_person = author == ConfigAuthor::kPerson;
  resolve_defaults(config);
  const bool is_of_run = author != ConfigAuthor::kPerson;
  if (is_of_run || !config.model.size) write_out_base_width(config, is_of_run);
  if (folder.model) config.init_from = folder.folder;
  if (folder.tokenizer_model && !mentions_tokenizer_model(*json.root)) {
    config.tokenizer.model = folder.tokenizer_model;
  }
  if (folder.model) check_init_from(config, folder, reader);
  if (json.root->is(JsonNode::Type::kObject)) {
    check_architectures(json.root->find("model"), config.model, "model.", reader);
    check_attention_bias(json.root->find("model"), config.model, "model.", reader);
    if (author != ConfigAuthor::kRank) check_config(config, reader);
  }

  problems.insert(problems.end(), reader.problems().begin(), reader.problems().end());
  const bool only_missing = problems.empty() && folder.is_missing;
  problems.insert(problems.end(), folder.problems.begin(), folder.problems.end());
  if (!problems.empty()) {
    throw_problems(problems, only_missing ? ErrorKind::kUsage : ErrorKind::kConfig);
  }
  return config;
}

Config load_config(const std::string& path, const std::vector<std::string>& overrides,
                   ConfigAuthor author, const CheckpointOfRun& checkpoint_of_run) {
  const FileInfo info = examine(path);
  if (info.kind == FileKind::kMissing) {
    throw Error(ErrorKind::kUsage, path +
                                       ": there is no such file; give the path of a "
                                       "configuration (docs/config.md describes it)");
  }
  if (info.kind == FileKind::kFolder) {
    throw Error(ErrorKind::kUsage, path + ": is a folder; give the path of a configuration file");
  }
  constexpr uint64_t kLargestConfig = uint64_t{16} << 20;
  // A path that is typed may be a pipe; the config that a run keeps is a file.
  const bool typed = author == ConfigAuthor::kPerson;
  if (typed && info.kind == FileKind::kFile && info.size > kLargestConfig) {
    std::string beginning;
    read_chunks(
        path, [&](std::string_view chunk) { beginning += chunk; }, /*most=*/4096);
    require_config(beginning, path);
  }
  const std::string text =
      typed ? read_file_or_pipe(path, kLargestConfig) : read_file(path, kLargestConfig);
  if (typed) require_config(text, path);
  return parse_config(text, path, overrides, author, checkpoint_of_run);
}

namespace {

using Type = JsonNode::Type;

constexpr size_t kMaxParts = 16;

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

constexpr std::string_view kLengths[] = {"steps", "tokens", "epochs", "time"};

// Which measure of the run's length a key is, "steps" of train.steps; empty for another key.
std::string length_of_key(const std::string& key) {
  if (!key.starts_with("train.")) return {};
  std::string name = key.substr(6);
  const bool is_length =
      std::find(std::begin(kLengths), std::end(kLengths), name) != std::end(kLengths);
  return is_length ? name : std::string();
}

// A measure of the run's length that is given on the command line replaces the others, and the
// history of lengths.
void clear_other_lengths(JsonNode& root, const std::string& given) {
  JsonNode* train = root.find("train");
  if (train == nullptr) return;
  std::erase_if(train->members, [&](const JsonMember& member) {
    const bool is_history = member.key == "planned_tokens" || member.key == "replanned_at";
    return is_history || (member.key != given && std::find(std::begin(kLengths), std::end(kLengths),
                                                           member.key) != std::end(kLengths));
  });
}

// Appends an override for each setting in `value`, the value of `key`. Returns whether every key
// can stand in an override.
bool add_by_setting(const std::string& key, const JsonNode& value, const SettingTable& table,
                    std::vector<std::string>& overrides) {
  if (value.is(Type::kObject) && table.is_section(key)) {
    return std::all_of(value.members.begin(), value.members.end(), [&](const JsonMember& member) {
      if (member.key.empty() || member.key.find('.') != std::string::npos) return false;
      const std::string below = key + "." + member.key;
      const Setting* setting = table.find(below);
      if (setting != nullptr && !has_effect(*setting, value)) return true;
      return add_by_setting(below, member.value, table, overrides);
    });
  }
  overrides.push_back(str(key, "=", value.is(Type::kNumber) ? value.text : to_json(value).dump()));
  return true;
}

}  // namespace

std::vector<std::string> overrides_by_setting(const std::vector<std::string>& overrides) {
  Config defaults;
  const SettingTable table = config_settings(defaults);
  std::vector<std::string> all;
  for (const std::string& override : overrides) {
    const size_t equals = override.find('=');
    const std::string key = override.substr(0, equals);
    std::vector<std::string> own;
    if (equals != std::string::npos && table.is_section(key)) {
      const JsonReadResult read = read_json_argument(override.substr(equals + 1), "");
      const bool is_object = read.root && read.problems.empty() && read.root->is(Type::kObject);
      if (is_object && add_by_setting(key, *read.root, table, own)) {
        all.insert(all.end(), own.begin(), own.end());
        continue;
      }
    }
    all.push_back(override);
  }
  return all;
}

void apply_overrides(const std::vector<std::string>& overrides, JsonNode& root,
                     std::vector<std::string>& problems) {
  std::string length, length_label;  // the measure of the run's length that was given
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
    const std::string measure = length_of_key(key);
    if (measure.empty() || value.is(Type::kNull)) continue;
    if (!length.empty() && length != measure) {
      problems.push_back(
          str(length_label, " and ", label, ": both say how long the run is; give one of them"));
    }
    length = measure;
    length_label = label;
    clear_other_lengths(root, measure);
  }
}

}  // namespace lmtrain
