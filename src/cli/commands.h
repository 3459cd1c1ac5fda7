// Each function adds one command with its options to `app`. If the command line has that command,
// parsing sets `action` to a function that does it and returns the exit code. `action` must outlive
// the parsing. It throws errors, which main() turns into messages and exit codes.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>

namespace lmtrain {

using Action = std::function<int()>;

void add_train_command(CLI::App& app, Action& action);
void add_resume_command(CLI::App& app, Action& action);
void add_eval_command(CLI::App& app, Action& action);
void add_generate_command(CLI::App& app, Action& action);
void add_export_command(CLI::App& app, Action& action);
void add_average_command(CLI::App& app, Action& action);
void add_prepare_command(CLI::App& app, Action& action);
void add_plan_command(CLI::App& app, Action& action);
void add_bench_command(CLI::App& app, Action& action);
void add_forecast_command(CLI::App& app, Action& action);
void add_report_command(CLI::App& app, Action& action);
void add_config_command(CLI::App& app, Action& action);
void add_completion_command(CLI::App& app, Action& action);

}  // namespace lmtrain
