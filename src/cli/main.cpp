// lmtrain: reads the command line, runs one command, and turns what went wrong into a message and
// an exit code.
#include <algorithm>
#include <exception>
#include <iostream>

#include "base/error.h"
#include "base/log.h"
#include "base/signal.h"
#include "base/stop.h"
#include "base/text.h"
#include "cli/commands.h"
#include "ops/device.h"
#include "train/failure.h"

namespace lmtrain {
namespace {

int report(ErrorKind kind, const std::string& message) {
  log_progress_done();
  std::cerr << "lmtrain: " << message << std::endl;
  return exit_code(kind);
}

int run_action(const Action& action) {
  try {
    const int code = action();
    std::cout.flush();
    if (!std::cout) return report(ErrorKind::kIo, "cannot write to standard output");
    return code;
  } catch (const StopRequested& stop) {
    log_progress_done();
    std::cerr << "lmtrain: stopped by signal " << stop.signal << std::endl;
    return 128 + stop.signal;
  } catch (const std::exception& error) {
    const Failure failure = describe_failure(error);
    return report(failure.kind, failure.message);
  }
}

// CLI11 would only say that a command is missing.
std::string unknown_command(const CLI::App& app, const std::string& word) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands(nullptr)) names.push_back(command->get_name());
  if (word.starts_with("-") || std::find(names.begin(), names.end(), word) != names.end())
    return "";
  const std::string nearest = nearest_word(word, names);
  return str("there is no command \"", word, "\"",
             nearest.empty() ? "" : str("; did you mean \"", nearest, "\"?"), " The commands are ",
             join(names, ", "), "; run lmtrain --help");
}

}  // namespace
}  // namespace lmtrain

int main(int argc, char** argv) {
  lmtrain::install_signal_handlers();
  CLI::App app("lmtrain pretrains Llama language models: fast, exactly, unattended.", "lmtrain");
  app.set_version_flag("--version", [] {
    return lmtrain::str("lmtrain ", LMTRAIN_VERSION, " (", lmtrain::library_versions(), ")");
  });
  app.require_subcommand(1);
  app.failure_message([](const CLI::App*, const CLI::Error& error) {
    return lmtrain::str("lmtrain: ", error.what(),
                        "; run lmtrain --help, or lmtrain COMMAND --help\n");
  });
  lmtrain::Action action;
  lmtrain::add_train_command(app, action);
  lmtrain::add_resume_command(app, action);
  lmtrain::add_eval_command(app, action);
  lmtrain::add_generate_command(app, action);
  lmtrain::add_prepare_command(app, action);
  lmtrain::add_plan_command(app, action);
  lmtrain::add_bench_command(app, action);
  lmtrain::add_config_command(app, action);
  const std::string problem = argc > 1 ? lmtrain::unknown_command(app, argv[1]) : "";
  if (!problem.empty()) return lmtrain::report(lmtrain::ErrorKind::kUsage, problem);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : lmtrain::exit_code(lmtrain::ErrorKind::kUsage);
  }
  return lmtrain::run_action(action);
}
