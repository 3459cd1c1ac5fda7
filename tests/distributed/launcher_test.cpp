// The variables of each launcher, whole, in part and wrong.
#include "distributed/launcher.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace lmtrain {
namespace {

std::string refusal(const Environment& environment) {
  try {
    read_launch(environment);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUsage);
    return error.what();
  }
  return "";
}

void expect_refused(const Environment& environment, const std::string& part) {
  const std::string message = refusal(environment);
  EXPECT_NE(message.find(part), std::string::npos) << "'" << message << "'";
}

Environment torchrun() {
  return {{"RANK", "3"},
          {"WORLD_SIZE", "4"},
          {"LOCAL_RANK", "1"},
          {"MASTER_ADDR", "node1"},
          {"MASTER_PORT", "29501"}};
}

TEST(Launcher, WithoutALauncherThereIsOneProcess) {
  const Launch launch = read_launch({{"HOME", "/root"}, {"MASTER_ADDR", "node1"}});
  EXPECT_EQ(launch.rank, 0);
  EXPECT_EQ(launch.count, 1);
}

TEST(Launcher, Torchrun) {
  Environment environment = torchrun();
  Launch launch = read_launch(environment);
  EXPECT_EQ(launch.rank, 3);
  EXPECT_EQ(launch.count, 4);
  EXPECT_EQ(launch.local_rank, 1);
  EXPECT_EQ(launch.address, "node1");
  EXPECT_EQ(launch.port, 29501);
  EXPECT_FALSE(launch.agent_store);
  environment["TORCHELASTIC_USE_AGENT_STORE"] = "False";
  EXPECT_FALSE(read_launch(environment).agent_store);
  environment["TORCHELASTIC_USE_AGENT_STORE"] = "True";
  launch = read_launch(environment);
  EXPECT_TRUE(launch.agent_store);
}

TEST(Launcher, LocalhostNeedsNoNameServer) {
  Environment environment = torchrun();
  environment["MASTER_ADDR"] = "localhost";
  EXPECT_EQ(read_launch(environment).address, "127.0.0.1");
  environment = {{"SLURM_PROCID", "1"},
                 {"SLURM_STEP_NUM_TASKS", "2"},
                 {"SLURM_LOCALID", "1"},
                 {"SLURM_STEP_NODELIST", "localhost"}};
  EXPECT_EQ(read_launch(environment).address, "127.0.0.1");
}

TEST(Launcher, NamesTheVariableThatIsMissing) {
  for (const char* name : {"RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT"}) {
    Environment environment = torchrun();
    environment.erase(name);
    expect_refused(environment, std::string(name) + " is not set");
    environment[name] = "";
    expect_refused(environment, std::string(name) + " is not set");
  }
}

TEST(Launcher, NamesTheVariableThatMakesNoSense) {
  const auto with = [](const char* name, const char* value) {
    Environment environment = torchrun();
    environment[name] = value;
    return environment;
  };
  expect_refused(with("RANK", "4"), "RANK is 4, and WORLD_SIZE is only 4");
  expect_refused(with("RANK", "-1"), "RANK is \"-1\"");
  expect_refused(with("WORLD_SIZE", "0"), "WORLD_SIZE is \"0\"");
  expect_refused(with("WORLD_SIZE", "two"), "WORLD_SIZE is \"two\"");
  expect_refused(with("WORLD_SIZE", "4 "), "WORLD_SIZE is \"4 \"");
  expect_refused(with("LOCAL_RANK", "4"), "LOCAL_RANK is \"4\"");
  expect_refused(with("MASTER_PORT", "70000"), "MASTER_PORT is \"70000\"");
}

TEST(Launcher, Slurm) {
  Environment environment = {{"SLURM_PROCID", "5"},
                             {"SLURM_STEP_NUM_TASKS", "8"},
                             {"SLURM_LOCALID", "1"},
                             {"SLURM_JOB_ID", "123456"},
                             {"SLURM_STEP_NODELIST", "gpu[07-08]"}};
  Launch launch = read_launch(environment);
  EXPECT_EQ(launch.rank, 5);
  EXPECT_EQ(launch.count, 8);
  EXPECT_EQ(launch.local_rank, 1);
  EXPECT_EQ(launch.address, "gpu07");
  EXPECT_EQ(launch.port, 23456);
  environment["MASTER_ADDR"] = "10.0.0.1";
  environment["MASTER_PORT"] = "4000";
  launch = read_launch(environment);
  EXPECT_EQ(launch.address, "10.0.0.1");
  EXPECT_EQ(launch.port, 4000);
  environment.erase("SLURM_PROCID");
  expect_refused(environment, "SLURM_PROCID is not set");
}

TEST(Launcher, ASlurmBatchScriptIsOneProcess) {
  EXPECT_EQ(
      read_launch({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "4"}, {"SLURM_JOB_ID", "7"}}).count, 1);
}

TEST(Launcher, Mpi) {
  Environment open_mpi = {{"OMPI_COMM_WORLD_RANK", "1"},
                          {"OMPI_COMM_WORLD_SIZE", "2"},
                          {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                          {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}};
  Launch launch = read_launch(open_mpi);
  EXPECT_EQ(launch.rank, 1);
  EXPECT_EQ(launch.address, "127.0.0.1");
  EXPECT_EQ(launch.port, 29500);
  open_mpi["OMPI_COMM_WORLD_LOCAL_SIZE"] = "1";
  expect_refused(open_mpi, "MASTER_ADDR is not set");
  open_mpi["MASTER_ADDR"] = "node1";
  EXPECT_EQ(read_launch(open_mpi).address, "node1");
  open_mpi.erase("OMPI_COMM_WORLD_SIZE");
  expect_refused(open_mpi, "OMPI_COMM_WORLD_SIZE is not set");

  launch = read_launch({{"PMI_RANK", "2"}, {"PMI_SIZE", "3"}, {"MASTER_ADDR", "node1"}});
  EXPECT_EQ(launch.rank, 2);
  EXPECT_EQ(launch.count, 3);
  EXPECT_FALSE(launch.local_rank.has_value());
}

// mpirun starts its daemons by srun, whose variables its processes then have too.
TEST(Launcher, TheInnermostLauncherCounts) {
  Environment environment = torchrun();
  environment["OMPI_COMM_WORLD_RANK"] = "0";
  environment["OMPI_COMM_WORLD_SIZE"] = "9";
  EXPECT_EQ(read_launch(environment).count, 4);
  environment = {{"OMPI_COMM_WORLD_RANK", "0"},
                 {"OMPI_COMM_WORLD_SIZE", "9"},
                 {"MASTER_ADDR", "node1"},
                 {"SLURM_PROCID", "0"},
                 {"SLURM_STEP_NUM_TASKS", "2"}};
  EXPECT_EQ(read_launch(environment).count, 9);
}

// Containers, notebooks and interactive jobs set some variables of a launcher.
TEST(Launcher, OneProcessAloneNeedsNoOtherVariable) {
  const std::vector<Environment> environments = {
      {{"WORLD_SIZE", "1"}},
      {{"WORLD_SIZE", "1"}, {"RANK", "0"}},
      {{"WORLD_SIZE", "1"}, {"RANK", "0"}, {"LOCAL_RANK", "0"}},
      {{"WORLD_SIZE", "1"}, {"RANK", ""}, {"MASTER_ADDR", ""}, {"MASTER_PORT", "29500"}},
      {{"WORLD_SIZE", ""}, {"RANK", ""}, {"LOCAL_RANK", "0"}},
      {{"SLURM_STEP_NUM_TASKS", "1"}},
      {{"SLURM_STEP_NUM_TASKS", "1"}, {"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "1"}},
      {{"SLURM_NTASKS", "1"}, {"SLURM_JOB_ID", "7"}},
      {{"OMPI_COMM_WORLD_SIZE", "1"}},
      {{"OMPI_COMM_WORLD_SIZE", "1"}, {"OMPI_COMM_WORLD_RANK", "0"}},
      {{"PMI_SIZE", "1"}},
      {{"PMI_SIZE", "1"}, {"PMI_RANK", "0"}, {"WORLD_SIZE", "1"}}};
  for (const Environment& environment : environments) {
    EXPECT_EQ(refusal(environment), "");
    EXPECT_EQ(read_launch(environment).count, 1);
    EXPECT_EQ(read_launch(environment).rank, 0);
  }
  expect_refused({{"WORLD_SIZE", "1"}, {"RANK", "1"}}, "RANK is 1, and WORLD_SIZE is only 1");
  expect_refused({{"WORLD_SIZE", "one"}}, "WORLD_SIZE is \"one\"");
  expect_refused({{"PMI_SIZE", "1"}, {"PMI_RANK", "2"}}, "PMI_RANK is 2");
}

// A WORLD_SIZE that is left over does not make single processes of those of mpirun or srun.
TEST(Launcher, AWorldOfOneGivesWayToAnotherLauncher) {
  Environment environment = {{"WORLD_SIZE", "1"},
                             {"OMPI_COMM_WORLD_RANK", "1"},
                             {"OMPI_COMM_WORLD_SIZE", "2"},
                             {"MASTER_ADDR", "node1"}};
  EXPECT_EQ(read_launch(environment).count, 2);
  environment["LOCAL_RANK"] = "0";  // torchrun itself, within mpirun
  EXPECT_EQ(read_launch(environment).count, 1);
}

TEST(Launcher, FirstMachineOfAList) {
  EXPECT_EQ(first_machine("node7"), "node7");
  EXPECT_EQ(first_machine("node7,node9"), "node7");
  EXPECT_EQ(first_machine("node[03-05,9],login"), "node03");
  EXPECT_EQ(first_machine("node[12]"), "node12");
  EXPECT_EQ(first_machine("node[1-2]-ib0,login"), "node1-ib0");
  EXPECT_EQ(first_machine("rack[02,4]node[3-5]"), "rack02node3");
  EXPECT_EQ(first_machine("node[3"), "node3");
  EXPECT_EQ(first_machine("login,node[1-2]"), "login");
}

}  // namespace
}  // namespace lmtrain
