#include "report/model_card.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "base/text.h"
#include "config/model_family.h"
#include "config/settings.h"
#include "report/html.h"
#include "report/static_chart.h"

namespace lmtrain {
namespace {

namespace fs = std::filesystem;
using OrderedJson = nlohmann::ordered_json;

// Returns whether YAML takes the character as it is, and a person sees it.
bool is_plain_in_yaml(char32_t c, std::string_view bytes) {
  return shown(bytes) == bytes && c != 0xFEFF && c != 0xFFFE && c != 0xFFFF;
}

// ---- Front matter ----

std::string yaml_list(const std::string& key, const std::vector<std::string>& texts) {
  std::string yaml;
  for (const std::string& text : texts)
    if (!text.empty()) yaml += "- " + yaml_text(text) + "\n";
  return yaml.empty() ? "" : key + ":\n" + yaml;
}

std::string yaml_list(const std::string& key,
                      const std::optional<std::vector<std::string>>& texts) {
  return texts ? yaml_list(key, *texts) : "";
}

struct Figure {
  const char* type;  // in the front matter
  const char* label;
  double value;
  const char* format;
};

// Returns a figure of the evaluation at the step of the model; nothing without one.
std::optional<double> evaluated(const CardFacts& facts, const std::string& key) {
  if (facts.run == nullptr || !facts.step) return std::nullopt;
  const EvaluationColumn* column = evaluation_of(*facts.run, key);
  for (size_t i = 0; column != nullptr && i < column->step.size(); ++i) {
    if (column->step[i] == static_cast<double>(*facts.step) && std::isfinite(column->value[i]))
      return column->value[i];
  }
  return std::nullopt;
}

// Returns the held-out figures at the step of the model.
std::vector<Figure> held_out_figures(const CardFacts& facts) {
  std::vector<Figure> figures;
  std::optional<double> loss = evaluated(facts, "eval_loss");
  if (!loss) loss = facts.eval_loss;
  if (loss && std::isfinite(*loss)) {
    figures.push_back({"loss", "Loss (nats a token)", *loss, "%.4f"});
    figures.push_back({"perplexity", "Perplexity", std::exp(*loss), "%.2f"});
  }
  if (const auto bits = evaluated(facts, "eval_bits_per_byte"))
    figures.push_back({"bits_per_byte", "Bits per byte", *bits, "%.4f"});
  std::erase_if(figures, [](const Figure& figure) { return !std::isfinite(figure.value); });
  return figures;
}

struct TaskFigures {
  std::string name;
  double accuracy = 0;
  std::optional<double> accuracy_norm, bits_per_byte;
};

// The tasks that were asked at the step of the model.
std::vector<TaskFigures> tasks_of(const CardFacts& facts) {
  constexpr std::string_view kPrefix = "task/", kAccuracy = "/accuracy";
  std::vector<TaskFigures> tasks;
  if (facts.run == nullptr) return tasks;
  for (const EvaluationColumn& column : facts.run->evaluations) {
    if (!column.key.starts_with(kPrefix) || !column.key.ends_with(kAccuracy)) continue;
    const std::optional<double> accuracy = evaluated(facts, column.key);
    if (!accuracy) continue;
    const std::string prefix = column.key.substr(0, column.key.size() - kAccuracy.size());
    tasks.push_back({prefix.substr(kPrefix.size()), *accuracy,
                     evaluated(facts, prefix + "/accuracy_norm"),
                     evaluated(facts, prefix + "/bits_per_byte")});
  }
  return tasks;
}

std::string result_yaml(const std::string& dataset_type, const std::string& dataset,
                        const std::vector<Figure>& figures) {
  std::string yaml =
      str("  - task:\n      type: text-generation\n      name: \"Text generation\"\n",
          "    dataset:\n      type: ", yaml_text(dataset_type),
          "\n      name: ", yaml_text(dataset), "\n    metrics:\n");
  for (const Figure& figure : figures) {
    yaml +=
        str("    - type: ", figure.type, "\n      value: ", printed(figure.format, figure.value),
            "\n      name: ", yaml_text(figure.label), "\n");
  }
  return yaml;
}

std::string model_index(const CardFacts& facts, const std::vector<Figure>& held_out,
                        const std::vector<TaskFigures>& tasks) {
  std::string results;
  if (!held_out.empty()) results += result_yaml("held-out", "Held-out text", held_out);
  for (const TaskFigures& task : tasks) {
    std::vector<Figure> figures = {{"accuracy", "Accuracy", task.accuracy, "%.4f"}};
    if (task.accuracy_norm) {
      figures.push_back(
          {"accuracy_norm", "Accuracy, length-normalised", *task.accuracy_norm, "%.4f"});
    }
    results += result_yaml(task.name, task.name, figures);
  }
  if (results.empty()) return "";
  return str("model-index:\n- name: ", yaml_text(facts.name), "\n  results:\n", results);
}

std::string front_matter(const CardFacts& facts, const std::vector<Figure>& held_out,
                         const std::vector<TaskFigures>& tasks) {
  const CardConfig card = facts.config == nullptr ? CardConfig() : facts.config->card;
  std::string yaml = str("---\n", kCardMark);
  if (card.license && !card.license->empty()) yaml += "license: " + yaml_text(*card.license) + "\n";
  yaml += yaml_list("language", card.language);
  yaml += "library_name: transformers\npipeline_tag: text-generation\n";
  yaml += yaml_list("tags", {"lmtrain", name_of(facts.model.model_type)});
  yaml += yaml_list("datasets", card.datasets);
  std::vector<std::string> metrics;
  metrics.reserve(held_out.size() + 1);
  for (const Figure& figure : held_out) metrics.emplace_back(figure.type);
  if (!tasks.empty()) metrics.emplace_back("accuracy");
  yaml += yaml_list("metrics", metrics);
  return yaml + model_index(facts, held_out, tasks) + "---\n";
}

// ---- Text ----

std::string whole(int64_t number) {  // 1,234,567
  std::string digits = std::to_string(number);
  for (size_t at = digits.size(); at > 3;) digits.insert(at -= 3, ",");
  return digits;
}

std::string amount(int64_t number) { return format_count(static_cast<double>(number)); }

// A value with its words, in a table of two columns.
using Row = std::pair<std::string, std::string>;

std::string table(const std::vector<Row>& rows) {
  std::string text = "| | |\n|---|---|\n";
  for (const auto& [name, value] : rows) text += str("| ", name, " | ", value, " |\n");
  return text;
}

std::string card_section(const std::string& title, const std::string& text) {
  return str("\n## ", title, "\n\n", text);
}

// Returns a block of code with a fence that no line of `text` can end.
std::string fenced(const std::string& language, const std::string& text) {
  size_t longest = 0, run = 0;
  for (const char c : text) longest = std::max(longest, run = c == '`' ? run + 1 : 0);
  const std::string fence(std::max<size_t>(3, longest + 1), '`');
  return str(fence, language, "\n", text, text.ends_with('\n') ? "" : "\n", fence, "\n");
}

std::string shape_section(const CardFacts& facts) {
  const ModelConfig& model = facts.model;
  std::string architecture = str("`", hf_class(model.model_type), "`");
  if (model.has_qk_norm()) architecture += ": a Llama with a norm of each query and key head";
  if (model.has_qkv_bias()) architecture += ": a Llama with biases of queries, keys and values";
  std::vector<Row> rows = {
      {"Architecture", architecture},
      {"Parameters", str(whole(facts.num_parameters), " (", amount(facts.num_parameters), ")")},
      {"Layers", str(model.num_hidden_layers)},
      {"Hidden size", str(model.hidden_size)},
      {"Intermediate size", str(model.intermediate_size)},
      {"Heads", str(counted(model.num_attention_heads, "query head"), ", ",
                    counted(model.num_key_value_heads, "key and value head"), ", each of size ",
                    model.resolved_head_dim())},
      {"Vocabulary", str(whole(facts.vocab_size), ", ",
                         model.tie_word_embeddings ? "one matrix for embedding and head"
                                                   : "embedding and head apart")},
      {"Positions", str(whole(facts.max_length), " tokens")}};
  return card_section("Model", table(rows));
}

std::string numbers_text(const std::vector<double>& values) {
  std::vector<std::string> texts;
  texts.reserve(values.size());
  for (const double value : values) texts.push_back(printed("%.6g", value));
  return join(texts, ", ");
}

// The value of a setting as `config show` has it.
std::string setting_text(const SettingTable& table, const std::string& key) {
  const Setting* setting = table.find(key);
  const OrderedJson value = setting == nullptr ? OrderedJson() : setting_value(*setting);
  return markdown_text(value.is_string() ? value.get<std::string>() : value.dump());
}

std::string optimizer_text(const Config& config, const SettingTable& table) {
  const OptimizerConfig& optimizer = config.optimizer;
  std::string text =
      str(name_of(optimizer.type), ", peak rate ", printed("%.6g", optimizer.peak_lr()));
  const auto add = [&](const char* label, const char* key) {
    const Setting* setting = table.find(key);
    if (setting != nullptr && why_unused(*setting, table).empty())
      text += str(", ", label, " ", setting_text(table, key));
  };
  add("momentum", "optimizer.momentum");
  const Setting* betas = table.find("optimizer.betas");
  if (betas != nullptr && why_unused(*betas, table).empty())
    text += str(", betas ", numbers_text(optimizer.betas));
  add("weight decay", "optimizer.weight_decay");
  if (!optimizer.groups.empty()) {
    text += str(", and rates of their own for ",
                counted(static_cast<int64_t>(optimizer.groups.size()), "group"), " of tensors");
  }
  return text;
}

std::string schedule_text(const Config& config, const SettingTable& table) {
  const LrScheduleConfig& schedule = config.lr_schedule;
  std::string text = str(name_of(schedule.type), " after a warm-up of ",
                         setting_text(table, "lr_schedule.warmup"));
  if (schedule.warmup.unit == TrainingDuration::Unit::kSteps) text += " steps";
  if (schedule.type == LrScheduleType::kConstant) return text;
  if (schedule.type == LrScheduleType::kWsd)
    text += str(", falling over the last ", setting_text(table, "lr_schedule.decay"));
  return text + str(", to ", printed("%.6g", schedule.min_ratio), " of the peak");
}

// Returns the passes over the text so far, by the weights of its sources; nothing if the size is
// not known.
std::optional<double> passes_of(const CardFacts& facts) {
  if (facts.totals == nullptr || facts.config == nullptr || !facts.tokens) return std::nullopt;
  double once = 0;
  for (const SourceTotals& source : facts.totals->sources) {
    const auto index = static_cast<size_t>(source.source);
    if (index >= facts.config->data.train.size()) return std::nullopt;
    once += facts.config->data.train[index].weight * static_cast<double>(source.targets);
  }
  if (!(once > 0)) return std::nullopt;
  return static_cast<double>(*facts.tokens) / once;
}

std::string recipe_section(const CardFacts& facts) {
  if (facts.config == nullptr) return "";
  Config config = *facts.config;  // a table binds to what it could change
  const SettingTable settings = config_settings(config);
  std::vector<Row> rows;
  if (facts.tokens) {
    std::string trained = str(whole(*facts.tokens), " tokens (", amount(*facts.tokens), ")");
    if (facts.step) trained += str(" in ", counted(*facts.step, "step"));
    if (const auto passes = passes_of(facts))
      trained += str(", ", printed("%.3g", *passes), " passes over the text");
    rows.emplace_back("Trained on", trained);
  } else if (facts.step) {
    rows.emplace_back("Trained for", counted(*facts.step, "step"));
  }
  if (config.init_from)
    rows.emplace_back("Begun from",
                      str("the weights of ", markdown_text(last_parts(*config.init_from))));
  rows.emplace_back("Optimizer", optimizer_text(config, settings));
  rows.emplace_back("Learning rate", schedule_text(config, settings));
  rows.emplace_back("Batch", str(whole(config.batch.tokens), " tokens a step"));
  rows.emplace_back(
      "Rows", str(name_of(config.sequence.batching), ", up to ", whole(config.sequence.max_length),
                  " tokens; lengths ", name_of(config.sequence.schedule.type)));
  rows.emplace_back("Gradient", config.clip.type == ClipType::kNone
                                    ? "not clipped"
                                    : str("clipped at ", printed("%.6g", config.clip.max), " by ",
                                          name_of(config.clip.type)));
  rows.emplace_back("Precision", str(name_of(config.precision), ", master weights in fp32, on a ",
                                     config.device.starts_with("cuda") ? "GPU" : "CPU"));
  rows.emplace_back("Seed", str(config.seed));
  return card_section("Recipe", table(rows));
}

std::string data_section(const CardFacts& facts) {
  if (facts.config == nullptr) return "";
  const std::vector<DataSourceConfig>& train = facts.config->data.train;
  std::string text = "| Source | Documents | Tokens | Weight |\n|---|---:|---:|---:|\n";
  for (size_t i = 0; i < train.size(); ++i) {
    std::string documents = "?", tokens = "?";
    for (const SourceTotals& source :
         facts.totals == nullptr ? std::vector<SourceTotals>() : facts.totals->sources) {
      if (source.source != static_cast<int64_t>(i)) continue;
      documents = whole(source.documents);
      tokens = whole(source.targets);
    }
    text += str("| ", markdown_text(last_parts(train[i].path)), " | ", documents, " | ", tokens,
                " | ", printed("%.6g", train[i].weight), " |\n");
  }
  if (facts.totals != nullptr) {
    const TextTotals& all = facts.totals->train;
    const TextTotals& held_out = facts.totals->held_out;
    text += str("\nThe training text has ", counted(all.documents, "document"), " and ",
                format_bytes(static_cast<uint64_t>(std::max<int64_t>(0, all.bytes))), ". ");
    text += held_out.documents > 0
                ? str("The held-out text has ", counted(held_out.documents, "document"), " and ",
                      whole(held_out.tokens), " tokens.\n")
                : str("No text was held out.\n");
  }
  if (const auto& names = facts.config->card.datasets) {
    std::vector<std::string> shown_names;
    for (const std::string& name : *names) shown_names.push_back(markdown_text(name));
    text += str("\nThe text is from ", join(shown_names, ", "), ".\n");
  }
  return card_section("Data", text);
}

std::string results_section(const CardFacts& facts, const std::vector<Figure>& held_out,
                            const std::vector<TaskFigures>& tasks) {
  std::string text;
  if (!held_out.empty()) {
    text += "On text that was held out:\n\n| | |\n|---|---:|\n";
    for (const Figure& figure : held_out)
      text += str("| ", figure.label, " | ", printed(figure.format, figure.value), " |\n");
  }
  if (!tasks.empty()) {
    text += str(text.empty() ? "" : "\n",
                "| Task | Accuracy | Length-normalised | Bits per byte |\n|---|---:|---:|---:|\n");
    const auto cell = [](const std::optional<double>& value) {
      return value ? printed("%.4f", *value) : std::string("–");
    };
    for (const TaskFigures& task : tasks) {
      text += str("| ", markdown_text(task.name), " | ", cell(task.accuracy), " | ",
                  cell(task.accuracy_norm), " | ", cell(task.bits_per_byte), " |\n");
    }
  }
  if (!card_curve(facts).empty()) {
    text += str(text.empty() ? "" : "\n", "![Training and held-out loss against tokens](",
                kCurveFile, ")\n");
  }
  return text.empty() ? "" : card_section("Results", text);
}

std::string use_section(const CardFacts& facts) {
  std::string text =
      "With transformers:\n\n" +
      fenced("python",
             "from transformers import AutoModelForCausalLM, AutoTokenizer\n\n"
             "folder = \".\"  # this folder, or its name on a hub\n"
             "tokenizer = AutoTokenizer.from_pretrained(folder)\n"
             "model = AutoModelForCausalLM.from_pretrained(folder)\n"
             "ids = tokenizer(\"Once upon a time\", return_tensors=\"pt\")\n"
             "print(tokenizer.decode(model.generate(**ids, max_new_tokens=50)[0]))\n") +
      "\nWith lmtrain, in this folder:\n\n" +
      fenced("sh", "lmtrain generate . --prompt \"Once upon a time\"\n");
  if (why_not_for_llama_cpp(facts.model).empty()) {
    text += "\nWith llama.cpp, if it knows the rule of the tokenizer:\n\n" +
            fenced("sh",
                   "lmtrain export . --format gguf --to model.gguf\n"
                   "llama-completion -m model.gguf -p \"Once upon a time\" -n 50\n");
  }
  return card_section(
      "Use", text + "\nThe model continues text. It was not trained to follow instructions.\n");
}

// ---- The config that trains the model again ----

// Returns false for settings that decide no weight, or belong to one machine.
bool is_of_the_recipe(const std::string& key) {
  if (key == "eval.tokens") return true;  // the figures of the card are of so much text
  for (const char* left_out :
       {"name", "run_dir", "forecast", "threads", "device", "compile", "data.cache_dir",
        "batch.micro_tokens", "model.activation_checkpointing", "train.max_time"})
    if (key == left_out) return false;
  for (const char* section : {"eval.", "checkpoint.", "log.", "card.", "parallel.", "restart."})
    if (key.starts_with(section)) return false;
  return true;
}

// Returns true for settings whose defaults follow from other settings.
bool is_always_written(const std::string& key) {
  for (const char* section :
       {"model.", "optimizer.", "lr_schedule.", "sequence.", "train.", "batch."})
    if (key.starts_with(section)) return true;
  return key == "seed";
}

void shorten_paths(Config& config) {
  for (DataSourceConfig& source : config.data.train) source.path = last_parts(source.path);
  if (config.data.eval)
    for (DataSourceConfig& source : *config.data.eval) source.path = last_parts(source.path);
  const SettingTable table = config_settings(config);
  for (const Setting& setting : table.settings()) {
    if (setting.kind != SettingKind::kPath) continue;
    if (auto* const* path = std::get_if<std::string*>(&setting.slot)) {
      **path = last_parts(**path);
    } else if (auto& optional = *std::get<std::optional<std::string>*>(setting.slot)) {
      *optional = last_parts(*optional);
    }
  }
}

OrderedJson recipe_json(Config config) {
  shorten_paths(config);
  const SettingTable table = config_settings(config);
  Config defaults;
  const SettingTable default_table = config_settings(defaults);
  OrderedJson root = OrderedJson::object();
  for (const Setting& setting : table.settings()) {
    if (std::holds_alternative<std::monostate>(setting.slot)) continue;
    if (!is_of_the_recipe(setting.key) || !why_unused(setting, table).empty()) continue;
    const OrderedJson value = setting_value(setting);
    if (value.is_null()) continue;
    if (!is_always_written(setting.key) && value == setting_value(*default_table.find(setting.key)))
      continue;
    OrderedJson* at = &root;
    for (const std::string& part : key_parts(setting.key)) at = &(*at)[part];
    *at = value;
  }
  return root;
}

std::string again_section(const CardFacts& facts) {
  if (facts.config == nullptr) return "";
  const OrderedJson json = recipe_json(*facts.config);
  std::string text = json.dump(2, ' ', false, OrderedJson::error_handler_t::replace);
  // No character may hide another.
  if (shown(text, /*keeps_lines=*/true) != text)
    text = json.dump(2, ' ', true, OrderedJson::error_handler_t::replace);
  return card_section(
      "Training it again",
      "Write this to `config.json`, with the paths of your copies of the text:\n\n" +
          fenced("json", text) + "\n" + fenced("sh", "lmtrain train config.json\n"));
}

}  // namespace

std::string yaml_text(std::string_view text) {
  std::string yaml = "\"";
  for_each_character(text, [&](char32_t c, std::string_view bytes) {
    if (c == '"' || c == '\\') {
      yaml += '\\';
      yaml += bytes;
    } else if (is_plain_in_yaml(c, bytes)) {
      yaml += bytes;
    } else {
      constexpr std::string_view kDigits = "0123456789ABCDEF";
      yaml += "\\U";
      for (int shift = 28; shift >= 0; shift -= 4)
        yaml += kDigits[static_cast<uint32_t>(c) >> static_cast<unsigned>(shift) & 0xFU];
    }
  });
  return yaml + "\"";
}

std::string markdown_text(std::string_view text) {
  constexpr std::string_view kMarkup = "\\`*_{}[]()#!|~$@:";
  std::string markdown;
  for_each_character(text, [&](char32_t c, std::string_view bytes) {
    if (c == '\n' || c == '\t') {
      markdown += ' ';
    } else if (shown(bytes) != bytes) {
      append_utf8(markdown, kReplacementCharacter);
    } else if (c == '<') {
      markdown += "&lt;";
    } else if (c == '>') {
      markdown += "&gt;";
    } else if (c == '&') {
      markdown += "&amp;";
    } else {
      if (bytes.size() == 1 && kMarkup.find(bytes.front()) != std::string_view::npos)
        markdown += '\\';
      markdown += bytes;
    }
  });
  return markdown;
}

std::string last_parts(const std::string& path) {
  if (path.find("://") != std::string::npos) return path;
  std::vector<std::string> parts;
  size_t first = 0;
  for (const fs::path& part : fs::path(path)) {
    if (part.empty() || part == "/" || part == ".") continue;
    if (part.native().find_first_of("*?[") == std::string::npos) first = parts.size();
    parts.push_back(part.string());
  }
  // The name of a checkpoint, or of a snapshot in a hub's cache, says nothing alone.
  for (const char* uninformative : {"checkpoints", "snapshots"})
    if (first >= 2 && parts[first - 1] == uninformative) first -= 2;
  return join({parts.begin() + static_cast<std::ptrdiff_t>(first), parts.end()}, "/");
}

std::string card_curve(const CardFacts& facts) {
  return facts.run == nullptr ? "" : loss_curve_file(*facts.run);
}

std::string model_card(const CardFacts& facts) {
  const std::vector<Figure> held_out = held_out_figures(facts);
  const std::vector<TaskFigures> tasks = tasks_of(facts);
  std::string text = front_matter(facts, held_out, tasks);
  text += str("\n# ", markdown_text(facts.name), "\n\nA language model of ",
              amount(facts.num_parameters), " parameters, ");
  if (facts.config == nullptr) {
    text += "written by lmtrain. How it was trained is not known here.";
  } else {
    text +=
        str("trained by lmtrain from ", facts.config->init_from ? "given" : "random", " weights.");
  }
  if (facts.step && facts.run != nullptr && facts.run->step > static_cast<double>(*facts.step)) {
    text += str(" These are the weights after step ", *facts.step, " of ",
                printed("%.0f", facts.run->step), ".");
  }
  text += "\n";
  text += shape_section(facts) + results_section(facts, held_out, tasks) + recipe_section(facts) +
          data_section(facts) + use_section(facts) + again_section(facts);
  return text;
}

}  // namespace lmtrain
