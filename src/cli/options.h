// Checks option values, with messages that say which values are allowed. CLI11's own messages print
// the limits of double instead.
#pragma once

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/text.h"
#include "checkpoint/given_model.h"
#include "config/enums.h"
#include "config/parse.h"
#include "config/settings.h"
#include "config/units.h"

namespace lmtrain {

// Returns a validator that refuses text for which `holds` is false, with a message to give `what`,
// and with the first of `similar(text)`.
inline CLI::Validator allowed(
    const std::string& what, bool (*holds)(const std::string& text),
    std::vector<std::string> (*similar)(std::string_view text) = nullptr) {
  return CLI::Validator(
      [=](std::string& text) {
        if (holds(text)) return std::string();
        const std::vector<std::string> meant =
            similar == nullptr ? std::vector<std::string>() : similar(text);
        return str("\"", text, "\" is not allowed; give ", what,
                   meant.empty() ? "" : str("; did you mean \"", meant.front(), "\"?"));
      },
      "");
}

// Returns `text` as a number; NaN unless the whole text is a number.
inline double number_of(const std::string& text) {
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  return !text.empty() && *end == '\0' ? value : std::nan("");
}
inline bool is_integer(const std::string& text) {
  char* end = nullptr;
  errno = 0;
  std::strtoll(text.c_str(), &end, 10);
  return !text.empty() && *end == '\0' && errno == 0;
}

// Allows integers of at least `least`, in base ten. Attach it with transform(): CLI11 would read a
// number that begins with 0 in base eight.
inline CLI::Validator integer_from(int64_t least) {
  return CLI::Validator(
      [least](std::string& text) {
        if (!is_integer(text) || std::stoll(text) < least) {
          const std::string from = least == 1 ? "above 0" : str("of at least ", least);
          return str("\"", text, "\" is not allowed; give an integer",
                     least == INT64_MIN ? "" : str(" ", from, ", at most ", INT64_MAX));
        }
        text = std::to_string(std::stoll(text));
        return std::string();
      },
      "");
}
inline CLI::Validator number_from_zero() {
  return allowed("a number of at least 0", [](const std::string& text) {
    return std::isfinite(number_of(text)) && number_of(text) >= 0;
  });
}
// Allows penalties from 0.001 to 1000, by which fp32 logits can be multiplied and divided.
inline CLI::Validator penalty() {
  return allowed("a number from 0.001 to 1000", [](const std::string& text) {
    return number_of(text) >= 1e-3 && number_of(text) <= 1e3;
  });
}
inline CLI::Validator fraction() {
  return allowed("a number from 0 to 1", [](const std::string& text) {
    return number_of(text) >= 0 && number_of(text) <= 1;
  });
}
// Returns the number of bytes that `text` gives, with or without a unit; nothing for other text.
inline std::optional<int64_t> bytes_of(const std::string& text) {
  if (is_integer(text)) return std::stoll(text);
  return parse_bytes(text);
}
// Allows text for which bytes_of() is above 0.
inline CLI::Validator bytes_above_zero() {
  return allowed("bytes above 0, such as 1000000, 512MB or 2GiB",
                 [](const std::string& text) { return bytes_of(text).value_or(0) > 0; });
}
// Allow what the settings train.time, train.tokens and model.size take.
inline CLI::Validator time_of_run() {
  const auto holds = [](const std::string& text) {
    return parse_duration(text).value_or(number_of(text)) > 0;
  };
  return allowed("a time above 0, such as 90s, 30min or 2h", holds, similar_durations);
}
inline CLI::Validator tokens_of_run() {
  const auto holds = [](const std::string& text) {
    return parse_tokens(text) ? *parse_tokens(text) > 0 : number_of(text) >= 1;
  };
  return allowed("tokens above 0, such as 10M, 2B or 64Ki", holds, similar_tokens);
}
inline CLI::Validator size_of_model() {
  const auto holds = [](const std::string& text) {
    return text == "auto" || parse_tokens(text).value_or(0) > 0;
  };
  return allowed("auto, or parameters such as 3M or 124M", holds, similar_tokens);
}
// Returns the names of the precisions of evaluation and sampling, without fp8: the result of a row
// would depend on the other rows of its batch.
inline std::vector<std::string> precisions_of_weights() {
  std::vector<std::string> names;
  for (const auto& [value, name] : enum_names(PrecisionSetting{}))
    if (value != PrecisionSetting::kFp8) names.emplace_back(name);
  return names;
}
inline CLI::Validator precision_of_weights() {
  const auto holds = [](const std::string& text) {
    const std::vector<std::string> names = precisions_of_weights();
    return std::find(names.begin(), names.end(), text) != names.end();
  };
  const auto similar = [](std::string_view text) -> std::vector<std::string> {
    const std::string nearest = nearest_choice(std::string(text), precisions_of_weights());
    if (nearest.empty()) return {};
    return {nearest};
  };
  return allowed("auto, fp32, bf16 or fp16", holds, similar);
}
// Allows the formats of text, not token ids: `eval` encodes text with the tokenizer of the model.
inline CLI::Validator format_of_text() {
  return allowed(
      "auto, text, lines, jsonl, json, csv, tsv, parquet, arrow or mds (not tokens: eval reads "
      "text)",
      [](const std::string& text) {
        const std::optional<DataFormat> format = value_named<DataFormat>(text);
        return format && *format != DataFormat::kTokens;
      });
}
inline CLI::Validator not_empty() {
  return allowed("a path", [](const std::string& text) { return !text.empty(); });
}
inline CLI::Validator device_name() { return allowed("auto, cpu, cuda or cuda:N", is_device_name); }

// Adds the argument for the path of the config file, and --set, whose KEY=VALUE go to `overrides`.
// Both must live until the command line is parsed.
inline void add_config_options(CLI::App& command, std::string& config,
                               std::vector<std::string>& overrides) {
  command.add_option("config", config, "The run configuration, a JSON file")
      ->required()
      ->check(not_empty());
  command.add_option("--set", overrides, "Override a setting: --set optimizer.lr=3e-4")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false);
}

// Loads the config of a run to begin from the file `config`. Where `init_from` names a run, its
// best checkpoint is taken. Throws the errors of load_config and best_checkpoint_of.
inline Config load_new_config(const std::string& config,
                              const std::vector<std::string>& overrides) {
  return load_config(config, overrides, ConfigAuthor::kPerson, best_checkpoint_of);
}

}  // namespace lmtrain
