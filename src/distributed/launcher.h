// A launcher (torchrun, mpirun, mpiexec or Slurm's srun) sets variables for each of its processes.
// From these a process reads which one of a run it is.
#pragma once

#include <map>
#include <optional>
#include <string>

namespace lmtrain {

using Environment = std::map<std::string, std::string>;

struct Launch {
  int rank = 0;                   // this process's, from 0
  int count = 1;                  // the number of processes of the run
  std::optional<int> local_rank;  // the rank among the processes of its machine; none: not told
  std::string address;            // where the processes meet, and the port; may be empty for one
  int port = 0;
  // torchrun's agent listens at that address; otherwise the process of rank 0 does.
  bool agent_store = false;
  std::string launcher;  // "torchrun", "mpirun", "mpiexec" or "srun", for messages; empty: none
};

// Returns this process's place in the launch. Without a launcher that is one process alone. The
// launchers are tried in this order; an empty variable counts as not set:
//   torchrun             RANK WORLD_SIZE LOCAL_RANK MASTER_ADDR MASTER_PORT
//   mpirun of Open MPI   OMPI_COMM_WORLD_RANK, _SIZE, _LOCAL_RANK
//   mpiexec of MPICH     PMI_RANK PMI_SIZE MPI_LOCALRANKID
//   srun                 SLURM_PROCID SLURM_STEP_NUM_TASKS SLURM_LOCALID
// torchrun is taken when RANK or WORLD_SIZE is set; it must then set all five. But a WORLD_SIZE of
// 1 without LOCAL_RANK, as containers and notebooks set it, is passed over. Another launcher is
// taken when it has set its number of processes, the second variable. The local rank may be
// missing. (Slurm sets SLURM_PROCID in a batch script too.) A number of processes of 1 needs no
// other variable.
//
// Several processes of the last three launchers meet at MASTER_ADDR:MASTER_PORT. Without
// MASTER_ADDR the address is the first machine of Slurm's list, or 127.0.0.1 when all processes are
// on one machine. Without MASTER_PORT the port is 20000 + SLURM_JOB_ID % 10000, or else 29500.
//
// Throws Error(kUsage), which names the variable:
//   a required variable is missing, or has a value that makes no sense
//   mpirun or mpiexec has set a rank without a number of processes, and no launcher is taken
//   the address cannot be known
Launch read_launch(const Environment& environment);

// Returns the variables of this process.
Environment process_environment();

// Returns the first machine of a list as Slurm writes it: "node03" of "node[03-05,9],login".
std::string first_machine(const std::string& node_list);

}  // namespace lmtrain
