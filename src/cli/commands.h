// One function a command. Each adds its options to `app` and leaves in `action` what to do when the
// command is chosen: a function that returns the exit code. Errors are thrown; main turns them into
// messages and exit codes.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>

namespace lmtrain {

using Action = std::function<int()>;

void add_train_command(CLI::App& app, Action& action);
void add_resume_command(CLI::App& app, Action& action);
void add_eval_command(CLI::App& app, Action& action);
void add_generate_command(CLI::App& app, Action& action);
void add_prepare_command(CLI::App& app, Action& action);
void add_plan_command(CLI::App& app, Action& action);
void add_bench_command(CLI::App& app, Action& action);
void add_config_command(CLI::App& app, Action& action);

}  // namespace lmtrain
