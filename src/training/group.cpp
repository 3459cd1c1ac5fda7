#include "training/group.h"

#include <sys/resource.h>

#include <chrono>
#include <memory>
#include <optional>
#include <utility>

#include "base/error.h"
#include "base/log.h"
#include "base/log_rank.h"
#include "base/stop.h"
#include "base/text.h"
#include "checkpoint/trial.h"
#include "device/failure.h"
#include "distributed/connect.h"
#include "distributed/launch.h"
#include "distributed/orders.h"
#include "training/run_setup.h"
#include "training/trainer.h"

namespace lmtrain {
namespace {

// The process's own, like its signals: set once, before anything is exchanged.
Processes* g_joined = nullptr;
bool g_left_in_failure = false;

// One attempt of the run in a process that is not the first.
void follow_attempt(const AttemptOrder& order, const Config& run_config, const PreparedData& data,
                    Processes& processes) {
  Config config = config_of_seed(run_config, order.seed);
  config.train.max_time = order.max_time;
  std::optional<TrainingDuration> trial;
  if (order.is_trial) trial = config.restart.tokens;
  try {
    Trainer trainer(config, data, RunFolder(*config.run_dir), order.checkpoint, trial, processes);
    trainer.last_step = order.last_step;
    trainer.run();
  } catch (const Error& error) {
    // Every process has diverged; the first one decides what becomes of the run.
    if (error.kind() != ErrorKind::kNumeric) throw;
  }
}

int follow(Processes& processes) {
  Config config;
  std::optional<PreparedData> prepared;
  PreparedData data;
  for (;;) {
    const Order order = listen(processes);
    if (const auto* end = std::get_if<EndOrder>(&order)) return end->exit_code;
    if (const auto* prepare = std::get_if<PrepareOrder>(&order)) {
      prepared = prepare_for_machine(prepare->config);
    } else if (const auto* run = std::get_if<RunOrder>(&order)) {
      config = run->config;
      data = prepare_as_told(config, std::move(prepared));
    } else {
      follow_attempt(std::get<AttemptOrder>(order), config, data, processes);
    }
  }
}

int lead_or_follow(Processes& processes, const std::function<int()>& lead) {
  if (!processes.is_first()) return follow(processes);
  const int code = lead();
  tell(processes, EndOrder{code});
  return code;
}

// Each process has two connections or more to every other one, and the usual limit is 1024 files.
void raise_file_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  [[maybe_unused]] const int result = ::setrlimit(RLIMIT_NOFILE, &limit);
}

int take_part(const Launch& launch, const std::function<int()>& lead) {
  raise_file_limit();
  log_as_rank(launch.rank);
  const auto timeout = std::chrono::duration<double>(ParallelConfig().timeout);
  g_left_in_failure = true;  // until all are connected, a thread may wait for those which are not
  std::unique_ptr<Processes> processes =
      connect_processes(launch, std::chrono::duration_cast<std::chrono::milliseconds>(timeout));
  g_left_in_failure = false;
  g_joined = processes.get();
  log_note(str(processes->count(), " processes, started by ", launch.launcher, ", ",
               processes->local_count(), " of them on this machine"));
  const auto give_up = [&](int code, const std::string& cause) {
    // Destroying what a lost process has left half done could wait for it.
    g_left_in_failure = true;
    processes.release()->give_up(code, cause);
  };
  try {
    const int code = lead_or_follow(*processes, lead);
    processes->leave();
    g_joined = nullptr;
    return code;
  } catch (const StopRequested& stop) {
    give_up(stop.exit_code(), stop.message());
    throw;
  } catch (const std::exception& error) {
    const Failure failure = describe_failure(error);
    give_up(failure.exit_code, failure.message);
    throw;
  }
}

}  // namespace

int in_processes(const std::function<int()>& lead) {
  const Launch launch = read_launch(process_environment());
  return launch.count == 1 ? lead() : take_part(launch, lead);
}

bool is_first_process() { return read_launch(process_environment()).rank == 0; }

bool left_in_failure() { return g_left_in_failure; }

Processes& joined_processes() { return g_joined != nullptr ? *g_joined : only_process(); }

}  // namespace lmtrain
