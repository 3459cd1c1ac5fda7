// lmtrain: reads the command line, runs one command, and turns what went wrong into a message and
// an exit code.
#include <c10/util/Exception.h>

#include <exception>
#include <iostream>
#include <new>

#include "base/error.h"
#include "base/log.h"
#include "base/signal.h"
#include "base/stop.h"
#include "base/text.h"
#include "cli/commands.h"
#include "ops/device.h"

namespace lmtrain {
namespace {

int report(ErrorKind kind, const std::string& message) {
  log_progress_done();
  std::cerr << "lmtrain: " << message << std::endl;
  return exit_code(kind);
}

int run_action(const Action& action) {
  try {
    return action();
  } catch (const StopRequested& stop) {
    log_progress_done();
    std::cerr << "lmtrain: stopped by signal " << stop.signal << std::endl;
    return 128 + stop.signal;
  } catch (const Error& error) {
    return report(error.kind(), error.what());
  } catch (const c10::OutOfMemoryError& error) {
    return report(ErrorKind::kMemory,
                  str("out of memory on the device: ", error.what_without_backtrace(),
                      "; lower batch.micro_tokens or sequence.max_length"));
  } catch (const std::bad_alloc&) {
    return report(
        ErrorKind::kMemory,
        "out of memory; lower batch.micro_tokens, sequence.max_length or the model's sizes");
  } catch (const c10::Error& error) {
    const std::string message = error.what_without_backtrace();
    // How libtorch's CPU allocator says that it is out of memory.
    const bool out_of_memory = message.find("can't allocate memory") != std::string::npos;
    return report(out_of_memory ? ErrorKind::kMemory : ErrorKind::kInternal,
                  str("libtorch: ", message));
  } catch (const std::exception& error) {
    return report(ErrorKind::kInternal,
                  str("internal error: ", error.what(), "; please report it"));
  }
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
  lmtrain::add_config_command(app, action);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : lmtrain::exit_code(lmtrain::ErrorKind::kUsage);
  }
  return lmtrain::run_action(action);
}
