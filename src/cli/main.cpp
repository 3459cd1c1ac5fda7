// lmtrain: reads the command line, runs one command, and turns what went wrong into a message and
// an exit code.
#include <poll.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/log.h"
#include "base/lost_pages.h"
#include "base/printable_output.h"
#include "base/start_times.h"
#include "base/stop.h"
#include "base/terminal.h"
#include "base/text.h"
#include "cli/command_line.h"
#include "cli/commands.h"
#include "cli/unexpected_end.h"
#include "device/device.h"
#include "device/failure.h"
#include "training/launch.h"

namespace lmtrain {
namespace {

int report(ErrorKind kind, const std::string& message) {
  log_error(message);
  return exit_code(kind);
}

// Returns whether standard output is a pipe that nobody reads any more.
bool reader_is_gone() {
  pollfd output{STDOUT_FILENO, POLLOUT, 0};
  return ::poll(&output, 1, 0) == 1 && (output.revents & POLLERR) != 0;
}

// Flushes standard output, and returns the exit code. If its reader is gone, such as `head`, the
// command ends without a message, as if by SIGPIPE.
int finish_output(int code) {
  std::cout.flush();
  if (std::cout) return code;
  if (reader_is_gone()) return code != 0 ? code : 128 + SIGPIPE;
  return report(ErrorKind::kIo, "cannot write to standard output");
}

int run_action(const Action& action) {
  try {
    return finish_output(action());
  } catch (const ProcessLost& lost) {
    log_error(lost.what());
    return lost.exit_code();
  } catch (const StopRequested& stop) {
    log_error(stop.message());
    return stop.exit_code();
  } catch (const std::exception& error) {
    const Failure failure = describe_failure(error);
    return report(failure.kind, failure.message);
  }
}

int run_command_line(int argc, char** argv) {
  CLI::App app("lmtrain pretrains Llama language models from text, as a JSON config says.",
               "lmtrain");
  app.set_version_flag(
      "--version", [] { return str("lmtrain ", LMTRAIN_VERSION, " (", library_versions(), ")"); });
  app.require_subcommand(1);
  app.failure_message([](const CLI::App*, const CLI::Error& error) {
    return str("lmtrain: ", error.what(), "; run lmtrain --help, or lmtrain COMMAND --help\n");
  });
  Action action;
  add_train_command(app, action);
  add_resume_command(app, action);
  add_eval_command(app, action);
  add_generate_command(app, action);
  add_export_command(app, action);
  add_average_command(app, action);
  add_prepare_command(app, action);
  add_plan_command(app, action);
  add_bench_command(app, action);
  add_forecast_command(app, action);
  add_report_command(app, action);
  add_config_command(app, action);
  add_completion_command(app, action);
  const std::vector<std::string> arguments = arguments_of(argc, argv);
  std::string problem = unknown_command(app, arguments);
  if (!problem.empty()) return report(ErrorKind::kUsage, problem);
  try {
    // CLI11 takes them from the back.
    app.parse(std::vector<std::string>(arguments.rbegin(), arguments.rend()));
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() != 0) problem = unknown_word(app, arguments);
    if (!problem.empty()) return report(ErrorKind::kUsage, problem);
    if (lacks_command(app, arguments)) {
      return report(ErrorKind::kUsage,
                    str("a command is missing; lmtrain COMMAND --help says more\n\n", app.help()));
    }
    const bool asked_for = app.exit(error) == 0;  // --help and --version end here
    return finish_output(asked_for ? 0 : exit_code(ErrorKind::kUsage));
  }
  return run_action(action);
}

}  // namespace
}  // namespace lmtrain

int main(int argc, char** argv) {
  lmtrain::start_times().begin();
  // The text that a model gives to a file or a pipe is wanted byte for byte.
  const bool is_model_text =
      argc > 1 && std::string_view(argv[1]) == "generate" && !lmtrain::output_is_terminal();
  std::optional<lmtrain::PrintableOutput> printable_output;
  if (!is_model_text) printable_output.emplace(std::cout);
  const lmtrain::PrintableOutput printable_errors(std::cerr);  // of the library of options
  lmtrain::install_signal_handlers();
  lmtrain::handle_lost_pages();
  lmtrain::report_unexpected_exits();
  lmtrain::log_torch_warnings();
  const int code = lmtrain::run_command_line(argc, argv);
  // Threads of exchanges with a process that is lost may still be at work, or hang.
  if (lmtrain::left_in_failure()) std::_Exit(code);
  lmtrain::expect_exit();
  return code;
}
