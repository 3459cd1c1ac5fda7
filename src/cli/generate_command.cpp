#include <iostream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "base/error.h"
#include "base/log.h"
#include "base/stop.h"
#include "base/text.h"
#include "cli/commands.h"
#include "cli/model_options.h"
#include "eval/prompt_file.h"
#include "model/generate.h"
#include "tokenizer/text_stream.h"

namespace lmtrain {
namespace {

struct GenerateArguments {
  TargetArguments target;
  LoadedModelOptions load;
  std::vector<std::string> prompt;  // each given by --prompt
  std::string prompts;              // a file
  bool json = false;                // one document of all answers
  std::optional<int64_t> batch_size;
  GenerateOptions sampling;
};

std::vector<int32_t> ids_of(const LoadedModel& loaded, const std::string& prompt,
                            const std::string& where) {
  std::vector<int32_t> ids = loaded.tokenizer().encode_prompt(prompt, loaded.add_bos());
  if (const auto length = static_cast<int64_t>(ids.size()); length > loaded.max_length()) {
    throw Error(ErrorKind::kUsage,
                str(where, " has ", length, " tokens, and the model has ", loaded.max_length(),
                    " positions (max_position_embeddings); give a shorter prompt"));
  }
  return ids;
}

// Prints the prompt and its text as it is drawn.
void continue_prompt(LoadedModel& loaded, const GenerateArguments& options) {
  const std::vector<int32_t> ids = ids_of(loaded, options.prompt.front(), "the prompt");
  std::cout << options.prompt.front() << std::flush;
  TextStream stream(loaded.tokenizer(), ids);
  const Continuation text = generate(loaded.model(), ids, options.sampling, [&](int32_t token) {
    std::cout << stream.add(token) << std::flush;
    return stop_signal() == 0 && std::cout.good();
  });
  std::cout << stream.finish() << std::endl;
  throw_if_stopped();
  if (text.end == GenerateEnd::kMaxLength) {
    log_warning(str("the text ends after ", text.tokens.size(),
                    " tokens: with the prompt they fill the ", loaded.max_length(),
                    " positions of the model (max_position_embeddings)"));
  }
}

std::vector<Prompt> prompts_of(const GenerateArguments& options) {
  if (!options.prompts.empty()) return read_prompts(options.prompts);
  std::vector<Prompt> prompts;
  for (const std::string& text : options.prompt)
    prompts.push_back({text, str("--prompt ", prompts.size() + 1)});
  return prompts;
}

// Prints a JSON line for each prompt, in their order, as soon as it and those before it have ended;
// with --json one document at the end, the answer to the only --prompt or a list.
void answer_prompts(LoadedModel& loaded, const GenerateArguments& options) {
  const std::vector<Prompt> prompts = prompts_of(options);
  std::vector<std::vector<int32_t>> ids;
  ids.reserve(prompts.size());
  for (const Prompt& prompt : prompts) ids.push_back(ids_of(loaded, prompt.text, prompt.where));
  std::map<size_t, nlohmann::ordered_json> waiting;  // answers whose turn has not come
  auto all = nlohmann::ordered_json::array();
  size_t next = 0;
  const auto answer = [&](size_t index, const Continuation& text) {
    nlohmann::ordered_json json = {
        {"prompt", prompts[index].text},
        {"text", continued_text(loaded.tokenizer(), ids[index], text.tokens)},
        {"tokens", text.tokens.size()},
        {"end", end_name(text.end)}};
    loaded.add_source(json);
    waiting[index] = std::move(json);
    for (auto first = waiting.begin(); first != waiting.end() && first->first == next; ++next) {
      if (options.json) {
        all.push_back(std::move(first->second));
      } else {
        print_json(first->second);
      }
      first = waiting.erase(first);
    }
  };
  const auto go_on = [](size_t /*prompt*/, int32_t /*token*/) {
    return stop_signal() == 0 && std::cout.good();
  };
  generate_all(loaded.model(), ids, options.batch_size.value_or(8), options.sampling, go_on,
               answer);
  if (options.json) print_json(options.prompt.size() == 1 && !all.empty() ? all.front() : all);
  throw_if_stopped();
}

int generate_text(GenerateArguments options) {
  if (options.prompt.empty() == options.prompts.empty()) {
    throw Error(ErrorKind::kUsage,
                "give prompts by --prompt TEXT, once or several times, or by --prompts FILE");
  }
  const bool is_one = options.prompt.size() == 1;
  if (is_one && options.batch_size)
    throw Error(ErrorKind::kUsage,
                "--batch-size goes with several prompts: --prompts FILE, or "
                "--prompt several times");
  LoadedModel loaded = load_target(options.target, options.load, "generate");
  options.sampling.num_ids = loaded.tokenizer().vocab_size();
  options.sampling.stop_ids = loaded.stop_ids();
  if (is_one && !options.json) {
    continue_prompt(loaded, options);
  } else {
    answer_prompts(loaded, options);
  }
  return 0;
}

}  // namespace

void add_generate_command(CLI::App& app, Action& action) {
  auto options = std::make_shared<GenerateArguments>();
  CLI::App* command = app.add_subcommand("generate", "Continue a prompt, or the prompts of a file");
  add_target(*command, options->target);
  CLI::Option* prompt =
      command
          ->add_option(
              "--prompt", options->prompt,
              "The text to continue; given several times, the answers are JSON lines as with "
              "--prompts")
          ->type_name("TEXT")
          ->allow_extra_args(false);
  command
      ->add_option("--prompts", options->prompts,
                   "A file of prompts, one a line or JSON lines with \"prompt\"; the answers are "
                   "JSON lines in their order")
      ->type_name("FILE")
      ->check(not_empty());
  command->add_flag("--json", options->json,
                    "Print one JSON document at the end: the answer to one --prompt, or a list");
  command
      ->add_option("--batch-size", options->batch_size,
                   "Prompts that are continued at once, of several (default: 8)")
      ->transform(integer_from(1));
  command->add_option("--max-tokens", options->sampling.max_tokens, "Tokens to draw at most")
      ->transform(integer_from(0))
      ->capture_default_str();
  command
      ->add_option("--temperature", options->sampling.temperature, "0: always the likeliest token")
      ->check(number_from_zero())
      ->capture_default_str();
  command
      ->add_option("--top-k", options->sampling.top_k,
                   "Sample among so many of the likeliest tokens; 0: among all")
      ->transform(integer_from(0))
      ->capture_default_str();
  command
      ->add_option("--top-p", options->sampling.top_p,
                   "Sample among the likeliest tokens that reach this probability")
      ->check(fraction())
      ->capture_default_str();
  command
      ->add_option("--repetition-penalty", options->sampling.repetition_penalty,
                   "Above 1: tokens that the prompt or the text has become less likely")
      ->check(penalty())
      ->capture_default_str();
  command->add_option("--seed", options->sampling.seed, "Seed of the random sampling")
      ->transform(integer_from(INT64_MIN))
      ->capture_default_str();
  add_load_options(*command, options->load);
  command->callback([options, prompt, &action] {
    options->prompt = prompt->results();  // as typed: CLI11 takes "{}" for no text at all
    action = [options] { return generate_text(*options); };
  });
}

}  // namespace lmtrain
