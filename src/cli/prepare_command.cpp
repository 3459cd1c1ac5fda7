#include <iostream>
#include <memory>

#include "base/log.h"
#include "base/machine.h"
#include "cli/commands.h"
#include "cli/options.h"
#include "config/parse.h"
#include "prepare/prepare.h"

namespace lmtrain {
namespace {

struct PrepareArguments {
  std::string config;
  std::vector<std::string> overrides;
};

int prepare(const PrepareArguments& options) {
  Config config = load_new_config(options.config, options.overrides);
  make_paths_absolute(config);
  for (const std::string& warning : check_given_model(config)) log_warning(warning);
  const PreparedData data =
      prepare_data(config, static_cast<int>(config.threads.value_or(default_threads())));
  std::cout << "tokenizer   " << data.tokenizer_model.string() << "\ntrain       "
            << data.train_shard.string() << "  " << data.train_documents << " documents, "
            << data.train_tokens << " tokens\n";
  if (data.eval_shard) {
    std::cout << "held out    " << data.eval_shard->string() << "  " << data.eval_documents
              << " documents, " << data.eval_tokens << " tokens\n";
  }
  std::cout << "fingerprint " << data.fingerprint << std::endl;
  return 0;
}

}  // namespace

void add_prepare_command(CLI::App& app, Action& action) {
  auto options = std::make_shared<PrepareArguments>();
  CLI::App* command =
      app.add_subcommand("prepare", "Train the tokenizer and write the token shards, nothing else");
  add_config_options(*command, options->config, options->overrides);
  command->callback([options, &action] { action = [options] { return prepare(*options); }; });
}

}  // namespace lmtrain
