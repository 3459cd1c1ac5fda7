// Which process of a run this one is, read from the variables that a launcher sets for each of its
// processes: torchrun, mpirun or mpiexec, Slurm's srun. A pure function of the environment.
#pragma once

#include <map>
#include <optional>
#include <string>

namespace lmtrain {

using Environment = std::map<std::string, std::string>;

struct Launch {
  int rank = 0;                   // of this process, from 0
  int count = 1;                  // processes of the run
  std::optional<int> local_rank;  // among those of its machine
  std::string address;            // where the processes meet, and the port there
  int port = 0;
  // torchrun's agent listens at that address; otherwise the process of rank 0 does.
  bool agent_store = false;
  int attempt = 0;       // how often torchrun has started the processes again
  std::string launcher;  // "torchrun", for messages
};

// One process where no launcher has set anything. Else the first that is set of
//   RANK WORLD_SIZE LOCAL_RANK MASTER_ADDR MASTER_PORT                 torchrun; all of them
//   OMPI_COMM_WORLD_RANK, _SIZE, _LOCAL_RANK                           mpirun of Open MPI
//   PMI_RANK PMI_SIZE, and MPI_LOCALRANKID                             mpiexec of MPICH
//   SLURM_PROCID SLURM_STEP_NUM_TASKS SLURM_LOCALID                    srun
// The last three meet at MASTER_ADDR:MASTER_PORT; without these, on the first machine of Slurm's
// list, or on this one where all processes are; at a port that follows from Slurm's job, else
// 29500. Error(kUsage) that names the variable when one of a set is missing or makes no sense.
Launch read_launch(const Environment& environment);

// The variables of this process.
Environment process_environment();

// The first machine of a list as Slurm writes it: "node[03-05,9],login" is node03.
std::string first_machine(const std::string& node_list);

}  // namespace lmtrain
