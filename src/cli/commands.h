// Each function adds one command with its options to `app`; when that command is chosen on the
// command line, `action` becomes the function that does it and returns the exit code. `action` must
// outlive the parsing. Errors are thrown; main turns them into messages and exit codes.
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
