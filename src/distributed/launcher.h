// A launcher (torchrun, mpirun, mpiexec or Slurm's srun) sets environment variables for each of its
// processes. From these a process reads its rank, and where to meet the others.
#pragma once

#include <map>
#include <optional>
#include <string>

namespace lmtrain {

using Environment = std::map<std::string, std::string>;

struct Launch {
  int rank = 0;                   // this process's, from 0
  int count = 1;                  // the number of processes of the run
  std::optional<int> local_rank;  // the rank on its machine; nothing: the launcher did not say
  std::string address;            // host where the processes meet; may be empty for one process
  int port = 0;
  // True: torchrun's agent serves the store at that address; false: the process of rank 0 does.
  bool agent_store = false;
  std::string launcher;  // "torchrun", "mpirun", "mpiexec" or "srun", for messages; empty: none
};

// Returns this process's place in the launch; without a launcher, one process alone. Looks for the
// launchers in this order. An empty variable counts as not set:
//   torchrun             RANK WORLD_SIZE LOCAL_RANK MASTER_ADDR MASTER_PORT
//   mpirun of Open MPI   OMPI_COMM_WORLD_RANK, _SIZE, _LOCAL_RANK
//   mpiexec of MPICH     PMI_RANK PMI_SIZE MPI_LOCALRANKID
//   srun                 SLURM_PROCID SLURM_STEP_NUM_TASKS SLURM_LOCALID
// torchrun is taken if RANK or WORLD_SIZE is set; it must then set all five. But a WORLD_SIZE of 1
// without LOCAL_RANK, as containers and notebooks set it, does not count. Another launcher is taken
// if its second variable, the number of processes, is set; its local rank may be missing. One
// process needs no other variable.
//
// With the last three launchers, processes also meet at MASTER_ADDR:MASTER_PORT. Without
// MASTER_ADDR the address is the first machine of Slurm's list, or 127.0.0.1 if MPI says that all
// processes are on one machine. Without MASTER_PORT the port is 20000 + SLURM_JOB_ID % 10000, or
// else 29500.
//
// Throws Error(kUsage) that names the variable:
//   a required variable is missing, or has a value that makes no sense
//   mpirun or mpiexec has set a rank without a number of processes, and no launcher is taken
//   the address cannot be known
Launch read_launch(const Environment& environment);

// Returns the environment variables of this process.
Environment process_environment();

// Returns the first machine of a list as Slurm writes it: "node03" of "node[03-05,9],login".
std::string first_machine(const std::string& node_list);

}  // namespace lmtrain
