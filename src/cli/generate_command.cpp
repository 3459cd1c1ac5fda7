#include <iostream>
#include <memory>

#include "base/signal.h"
#include "base/stop.h"
#include "cli/commands.h"
#include "cli/words/validators.h"
#include "model/generate.h"
#include "tools/loaded_model.h"

namespace lmtrain {
namespace {

struct GenerateArguments {
  std::string target;
  std::string prompt;
  std::string precision = "fp32";
  std::string device = "auto";
  std::string tokenizer;
  GenerateOptions sampling;
};

int generate_text(GenerateArguments options) {
  auto loaded = with_located_model(options.target, [&](const ModelLocation& location) {
    return LoadedModel(location, {options.device, options.precision, 0, options.tokenizer});
  });
  const Tokenizer& tokenizer = loaded.tokenizer();
  std::vector<int32_t> ids =
      tokenizer.encode_document(options.prompt, loaded.add_bos(), /*add_eos=*/false);
  if (ids.empty()) ids.push_back(std::max(tokenizer.bos_id(), 0));
  options.sampling.stop_id = tokenizer.eos_id();

  // Text appears as it is drawn. A character may be spread over several tokens, and a space at the
  // front of a piece counts only behind another, so what is printed is what the decoded whole,
  // prompt included, has grown by, up to its last complete character.
  std::cout << options.prompt << std::flush;
  std::vector<int32_t> written = ids;
  size_t printed = tokenizer.decode(written).size();
  const auto print = [&](const std::string& text) {
    std::cout << text.substr(printed) << std::flush;
    printed = text.size();
  };
  generate(loaded.model(), ids, options.sampling, [&](int32_t token) {
    written.push_back(token);
    const std::string text = tokenizer.decode(written);
    if (!text.ends_with("\xEF\xBF\xBD")) print(text);  // U+FFFD: an unfinished character
    return stop_signal() == 0 && std::cout.good();
  });
  const std::string text = tokenizer.decode(written);
  if (text.size() > printed) print(text);
  std::cout << std::endl;
  if (stop_signal() != 0) throw StopRequested{stop_signal()};
  return 0;
}

}  // namespace

void add_generate_command(CLI::App& app, Action& action) {
  auto options = std::make_shared<GenerateArguments>();
  CLI::App* command = app.add_subcommand("generate", "Continue a prompt");
  command->add_option("target", options->target, "A run folder, a checkpoint, or a HF Llama folder")
      ->required();
  command->add_option("--prompt", options->prompt, "The text to continue")->required();
  command->add_option("--max-tokens", options->sampling.max_tokens, "Tokens to draw at most")
      ->check(integer_from_zero())
      ->capture_default_str();
  command
      ->add_option("--temperature", options->sampling.temperature, "0: always the likeliest token")
      ->check(number_from_zero())
      ->capture_default_str();
  command
      ->add_option("--top-p", options->sampling.top_p,
                   "Sample among the likeliest tokens that reach this probability")
      ->check(fraction())
      ->capture_default_str();
  command->add_option("--seed", options->sampling.seed, "Another seed, another text")
      ->check(any_integer())
      ->capture_default_str();
  command->add_option("--precision", options->precision, "auto, fp32, bf16 or fp16")
      ->check(precision_of_weights())
      ->capture_default_str();
  command->add_option("--device", options->device, "auto, cpu, cuda or cuda:N")
      ->check(device_name())
      ->capture_default_str();
  command->add_option("--tokenizer", options->tokenizer,
                      "A sentencepiece model or a tokenizer.json (default: the folder's)");
  command->callback([options, &action] { action = [options] { return generate_text(*options); }; });
}

}  // namespace lmtrain
