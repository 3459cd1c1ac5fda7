#include <cmath>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/examine.h"
#include "base/table.h"
#include "base/text.h"
#include "cli/commands.h"
#include "cli/options.h"
#include "training/forecast.h"

namespace lmtrain {
namespace {

using Json = nlohmann::ordered_json;

struct ForecastArguments {
  std::string config;
  std::vector<std::string> overrides;
  std::vector<std::string> times, tokens, sizes;
  std::string spend = "10%";
  std::string to;
  bool json = false;
};

// The part that "10%" names; 0 for other text, and for what is not above 0 and at most 100 %.
double part_of(const std::string& text) {
  if (!text.ends_with('%')) return 0;
  const double percent = number_of(text.substr(0, text.size() - 1));
  return percent > 0 && percent <= 100 ? percent / 100 : 0;
}

std::string number(const Json& value, const char* format) {
  return printed(format, value.get<double>());
}
std::string count(const Json& value) { return format_count(value.get<double>()); }
std::string range(const Json& value, const char* format) {
  return str(number(value.at("expected"), format), " (", number(value.at("low"), format), " to ",
             number(value.at("high"), format), ")");
}

std::string run_text(const Json& run) {
  return str(count(run.at("parameters")), " parameters, ", count(run.at("tokens")), " tokens, ",
             number(run.at("passes"), "%.2f"), " passes");
}

std::string split_text(const Json& split) {
  return str(run_text(split), ", loss ", range(split.at("loss"), "%.3f"), ", about ",
             format_duration(split.at("seconds").get<double>()));
}

std::string answer_text(const Json& answer) {
  const std::string asked = answer.at("asked");
  std::string text =
      line("run", str(asked.empty() ? "" : asked + ", ", run_text(answer))) +
      line("loss", str(range(answer.at("loss"), "%.3f"), " held out, with 80 % probability")) +
      line("bits a byte", range(answer.at("bits_per_byte"), "%.3f")) +
      line("perplexity", range(answer.at("perplexity"), "%.2f")) +
      line("time", str("about ", format_duration(answer.at("seconds").get<double>()), ", ",
                       format_bytes(answer.at("memory").get<uint64_t>()), " of memory")) +
      line("best split", split_text(answer.at("best"))) +
      line("twice", split_text(answer.at("twice"))) +
      line("ten times", split_text(answer.at("ten_times")));
  for (const Json& doubt : answer.at("doubts")) text += line("doubt", doubt.get<std::string>());
  return text;
}

std::string rates_text(const Json& rates) {
  std::string text;
  for (const Json& tried : rates.at("tried")) {
    const double percent = 100 * tried.at("gain").get<double>();
    const double error = 100 * tried.at("standard_error").get<double>();
    text += line("rates",
                 str("times ", number(tried.at("factor"), "%.3g"), ": loss ",
                     printed("%.2f", std::abs(percent)), percent >= 0 ? " % lower" : " % higher",
                     ", standard error ", printed("%.2f", error), " %, in ",
                     tried.at("pairs").get<int>(), " pairs of small runs"));
  }
  if (rates.at("lr_factor").is_number()) {
    text +=
        line("rates", str("better with --set optimizer.lr_factor=",
                          number(rates.at("lr_factor"), "%.6g"), "; the answers are without it"));
  }
  return text;
}

std::string to_text(const Json& answers) {
  Table rungs = {{"parameters", "tokens", "passes", "loss", "fitted"}};
  for (const Json& rung : answers.at("rungs")) {
    rungs.push_back({count(rung.at("parameters")), count(rung.at("tokens")),
                     number(rung.at("passes"), "%.2f"), number(rung.at("loss"), "%.4f"),
                     number(rung.at("fitted"), "%.4f")});
  }
  const Json& law = answers.at("law");
  const auto term = [&](const char* factor, const char* of, const char* exponent) {
    return str("(", number(law.at(factor), "%.3g"), " / ", of, "^",
               number(law.at(exponent), "%.3f"), ")^", number(law.at("sharpness"), "%.2f"));
  };
  std::string text = block("rungs", rungs) +
                     line("law", str("loss = ", number(law.at("floor"), "%.3f"), " + 1 / (1 / ",
                                     number(law.at("height"), "%.3f"), " + 1 / M), M = (",
                                     term("size_factor", "N", "size_exponent"), " + ",
                                     term("tokens_factor", "D", "tokens_exponent"), ")^(1 / ",
                                     number(law.at("sharpness"), "%.2f"), ")"));
  text += rates_text(answers.at("rates"));
  for (const Json& answer : answers.at("answers")) text += "\n" + answer_text(answer);
  return text;
}

int forecast(const ForecastArguments& options) {
  ForecastOrder order;
  const auto ask = [&](const std::string& option, const std::string& setting) {
    std::vector<std::string> overrides = options.overrides;
    if (!setting.empty()) overrides.push_back(setting);
    AskedRun asked = {option, load_new_config(options.config, overrides)};
    make_paths_absolute(asked.config);
    order.asked.push_back(std::move(asked));
  };
  for (const std::string& time : options.times) ask("--time " + time, "train.time=" + time);
  for (const std::string& tokens : options.tokens)
    ask("--tokens " + tokens, "train.tokens=" + tokens);
  for (const std::string& size : options.sizes)
    ask("--size " + size, str("model.size=\"", size, "\""));
  if (order.asked.empty()) ask("", "");
  order.folder = absolute_path(options.to);
  order.spend = part_of(options.spend);
  const ForecastResult result = make_forecast(order);
  if (result.exit_code != 0) return result.exit_code;
  if (options.json) {
    std::cout << result.answers.dump() << std::endl;
  } else {
    std::cout << to_text(result.answers) << std::flush;
  }
  return 0;
}

}  // namespace

void add_forecast_command(CLI::App& app, Action& action) {
  auto options = std::make_shared<ForecastArguments>();
  CLI::App* command = app.add_subcommand(
      "forecast", "The held-out loss to expect of a run, told by a ladder of small runs");
  add_config_options(*command, options->config, options->overrides);
  const auto add = [&](const char* name, std::vector<std::string>& values, const char* what,
                       const char* type, const CLI::Validator& allowed_values) {
    command->add_option(name, values, what)
        ->type_name(type)
        ->allow_extra_args(false)
        ->check(allowed_values);
  };
  add("--time", options->times, "Ask about a run of this time: 1h; may be repeated", "TIME",
      time_of_run());
  add("--tokens", options->tokens, "Ask about a run of these tokens: 10B; may be repeated",
      "TOKENS", tokens_of_run());
  add("--size", options->sizes, "Ask about a model of this size: 124M; may be repeated", "SIZE",
      size_of_model());
  command
      ->add_option("--spend", options->spend,
                   "The part of the largest run asked about that the ladder may cost")
      ->type_name("PERCENT")
      ->check(allowed("a percentage above 0, at most 100%, such as 10%",
                      [](const std::string& text) { return part_of(text) > 0; }))
      ->capture_default_str();
  command->add_option("--to", options->to, "The folder of the forecast; it is gone on with there")
      ->required()
      ->type_name("DIR")
      ->check(not_empty());
  command->add_flag("--json", options->json, "Print one JSON document");
  command->callback([options, &action] { action = [options] { return forecast(*options); }; });
}

}  // namespace lmtrain
