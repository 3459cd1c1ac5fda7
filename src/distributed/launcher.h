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

// Returns one process alone where no launcher has set its variables; an empty variable counts as
// not set. The launchers are tried in this order. torchrun is taken where RANK or WORLD_SIZE is
// set, another one where its number of processes is (Slurm sets SLURM_PROCID in a batch script
// too). All that the launcher must set is then required. Where none is taken, a rank of mpirun or
// mpiexec without a number of processes is an error. A number of processes of 1 needs nothing else.
// A WORLD_SIZE of 1 without LOCAL_RANK, as containers and notebooks set it, is passed over, and the
// next launcher is tried.
//   RANK WORLD_SIZE LOCAL_RANK MASTER_ADDR MASTER_PORT                 torchrun; all of them
//   OMPI_COMM_WORLD_RANK, _SIZE, _LOCAL_RANK                           mpirun of Open MPI
//   PMI_RANK PMI_SIZE MPI_LOCALRANKID                                  mpiexec of MPICH
//   SLURM_PROCID SLURM_STEP_NUM_TASKS SLURM_LOCALID                    srun
// With the last three the local rank may be missing, and several processes meet at
// MASTER_ADDR:MASTER_PORT. Where the address is not set, it is the first machine of Slurm's list,
// or 127.0.0.1 when all processes are on one machine; where the port is not set, it is
// 20000 + SLURM_JOB_ID % 10000, else 29500. Throws Error(kUsage) that names the variable when one
// of a set is missing or has a value that makes no sense, or the address cannot be known.
Launch read_launch(const Environment& environment);

// Returns the variables of this process.
Environment process_environment();

// Returns the first machine of a list as Slurm writes it: "node03" of "node[03-05,9],login".
std::string first_machine(const std::string& node_list);

}  // namespace lmtrain
