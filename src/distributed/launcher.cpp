#include "distributed/launcher.h"

#include <unistd.h>

#include <charconv>

#include "base/error.h"
#include "base/text.h"

namespace lmtrain {
namespace {

constexpr int kDefaultPort = 29500;
constexpr int kMaxProcesses = 1 << 20;

// The variables of one launcher; `names` of the numbers that it sets.
struct Names {
  const char* launcher;
  const char* rank;
  const char* count;
  const char* local_rank;
};
constexpr Names kTorchrun = {"torchrun", "RANK", "WORLD_SIZE", "LOCAL_RANK"};
constexpr Names kOpenMpi = {"mpirun", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
                            "OMPI_COMM_WORLD_LOCAL_RANK"};
constexpr Names kMpich = {"mpiexec", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID"};
constexpr Names kSlurm = {"srun", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID"};

[[noreturn]] void refuse(const std::string& what) {
  throw Error(ErrorKind::kUsage,
              str(what,
                  "; the variables of docs/distributed.md say which process this is; to run "
                  "one process alone, unset them"));
}

class Variables {
 public:
  explicit Variables(const Environment& environment) : environment_(environment) {}

  bool has(const std::string& name) const {
    const auto found = environment_.find(name);
    return found != environment_.end() && !found->second.empty();
  }
  std::string text(const std::string& name, const std::string& because) const {
    if (!has(name)) refuse(str(name, " is not set, though ", because, " is"));
    return environment_.at(name);
  }
  int number(const std::string& name, const std::string& because, int least, int most) const {
    const std::string value = text(name, because);
    int number = 0;
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
    if (error != std::errc() || end != value.data() + value.size() || number < least ||
        number > most) {
      refuse(str(name, " is \"", value, "\"; allowed: an integer from ", least, " to ", most));
    }
    return number;
  }

 private:
  const Environment& environment_;
};

Launch read_numbers(const Variables& variables, const Names& names) {
  const char* first = variables.has(names.rank) ? names.rank : names.count;
  Launch launch;
  launch.launcher = names.launcher;
  launch.count = variables.number(names.count, first, 1, kMaxProcesses);
  launch.rank = variables.number(names.rank, first, 0, kMaxProcesses);
  if (launch.rank >= launch.count) {
    refuse(str(names.rank, " is ", launch.rank, ", and ", names.count, " is only ", launch.count));
  }
  if (variables.has(names.local_rank)) {
    launch.local_rank = variables.number(names.local_rank, first, 0, launch.count - 1);
  }
  return launch;
}

// Returns whether the variables tell of one process, which meets no other: it needs no rank and no
// address. Throws Error(kUsage) when its rank is not 0.
bool is_one_alone(const Variables& variables, const Names& names) {
  if (!variables.has(names.count) ||
      variables.number(names.count, names.count, 1, kMaxProcesses) != 1)
    return false;
  if (variables.has(names.rank)) read_numbers(variables, names);
  return true;
}

// A port for the processes of this job, so that two jobs on one machine do not meet.
int port_of_job(const Variables& variables) {
  if (!variables.has("SLURM_JOB_ID")) return kDefaultPort;
  const int job = variables.number("SLURM_JOB_ID", "SLURM_JOB_ID", 0, INT32_MAX);
  return 20000 + job % 10000;
}

// Returns the address of a machine of this name. "localhost" is this machine (RFC 6761, 6.3), also
// where no /etc/hosts says so and a name server would be asked for it in vain.
std::string address_of_machine(const std::string& name) {
  return name == "localhost" ? "127.0.0.1" : name;
}

void read_address(const Variables& variables, const Names& names, Launch& launch) {
  launch.port = variables.has("MASTER_PORT")
                    ? variables.number("MASTER_PORT", "MASTER_PORT", 1, 65535)
                    : port_of_job(variables);
  if (variables.has("MASTER_ADDR")) {
    launch.address = address_of_machine(variables.text("MASTER_ADDR", "MASTER_ADDR"));
    return;
  }
  for (const char* list : {"SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST"}) {
    if (!variables.has(list)) continue;
    launch.address = address_of_machine(first_machine(variables.text(list, list)));
    return;
  }
  for (const char* local_count : {"OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS"}) {
    if (!variables.has(local_count)) continue;
    if (variables.number(local_count, local_count, 1, kMaxProcesses) != launch.count) continue;
    launch.address = "127.0.0.1";
    return;
  }
  refuse(str("MASTER_ADDR is not set, though ", names.rank,
             " is, and not all processes are on this machine: name the machine of rank 0 in it"));
}

}  // namespace

std::string first_machine(const std::string& node_list) {
  std::string name;
  for (size_t i = 0; i < node_list.size() && node_list[i] != ','; ++i) {
    if (node_list[i] != '[') {
      name += node_list[i];
      continue;
    }
    // The first of the numbers in brackets, with the zeros before it.
    const size_t number_end = node_list.find_first_of(",-]", i + 1);
    name += node_list.substr(i + 1, number_end - i - 1);
    i = node_list.find(']', i);
    if (i == std::string::npos) break;
  }
  return name;
}

Launch read_launch(const Environment& environment) {
  const Variables variables(environment);
  const bool is_alone = is_one_alone(variables, kTorchrun);
  if (is_alone && variables.has(kTorchrun.local_rank)) return {};
  if (!is_alone && (variables.has(kTorchrun.rank) || variables.has(kTorchrun.count))) {
    Launch launch = read_numbers(variables, kTorchrun);
    if (!launch.local_rank) {
      launch.local_rank = variables.number(kTorchrun.local_rank, kTorchrun.rank, 0, kMaxProcesses);
    }
    launch.address = address_of_machine(variables.text("MASTER_ADDR", kTorchrun.rank));
    launch.port = variables.number("MASTER_PORT", kTorchrun.rank, 1, 65535);
    launch.agent_store = variables.has("TORCHELASTIC_USE_AGENT_STORE") &&
                         environment.at("TORCHELASTIC_USE_AGENT_STORE") == "True";
    return launch;
  }
  for (const Names& names : {kOpenMpi, kMpich, kSlurm}) {
    // In a batch script Slurm sets SLURM_PROCID too; only srun says how many tasks a step has.
    if (!variables.has(names.count)) continue;
    if (is_one_alone(variables, names)) return {};
    Launch launch = read_numbers(variables, names);
    if (launch.count > 1) read_address(variables, names, launch);
    return launch;
  }
  for (const Names& names : {kOpenMpi, kMpich}) {
    if (variables.has(names.rank)) read_numbers(variables, names);  // says what is missing
  }
  return {};
}

Environment process_environment() {
  Environment environment;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text = *entry;
    const size_t equals = text.find('=');
    if (equals != std::string::npos)
      environment.emplace(text.substr(0, equals), text.substr(equals + 1));
  }
  return environment;
}

}  // namespace lmtrain
