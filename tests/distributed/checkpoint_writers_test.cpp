// Who writes a checkpoint; the processes are threads of the test.
#include "distributed/checkpoint_writers.h"

#include <gtest/gtest.h>

#include "base/random.h"
#include "base/support.h"
#include "checkpoint/run_folder.h"
#include "distributed/group.h"

namespace lmtrain {
namespace {

namespace fs = std::filesystem;
using testing::TemporaryFolder;

TEST(CheckpointWriters, AreAllThatSeeTheFolderOfTheFirst) {
  const TemporaryFolder folder;
  const RunFolder run(folder / "run");
  fs::create_directories(run.checkpoints());
  as_ranks(3, [&](Processes& processes) {
    // To the others the folder is a name.
    const RunFolder mine(processes.is_first() ? run.path() : folder / "elsewhere");
    const CheckpointWriters writers =
        CheckpointWriters::find(processes, mine.unfinished_checkpoint(0, random_id()));
    EXPECT_EQ(writers.others(), (std::vector<int>{1, 2}));
    for (const int rank : {0, 1, 2}) EXPECT_EQ(writers.writer_of(rank), rank);
  });
  EXPECT_TRUE(fs::is_empty(run.checkpoints())) << "nothing of the trial stays";
  EXPECT_FALSE(fs::exists(folder / "elsewhere"));
}

TEST(CheckpointWriters, IsTheFirstAloneWhereItCannotTry) {
  const TemporaryFolder folder;
  const RunFolder run(folder / "run");
  testing::replace_file(run.path(), "a file in place of the folder");
  as_ranks(2, [&](Processes& processes) {
    const CheckpointWriters writers =
        CheckpointWriters::find(processes, run.unfinished_checkpoint(0, random_id()));
    EXPECT_TRUE(writers.others().empty());
    EXPECT_TRUE(writers.writes(0));
    EXPECT_FALSE(writers.writes(1));
  });
}

TEST(CheckpointWriters, TheFirstWritesForThoseThatDoNot) {
  const CheckpointWriters writers({true, false, true, false});
  EXPECT_EQ(writers.others(), std::vector<int>{2});
  EXPECT_EQ(writers.writer_of(1), 0);
  EXPECT_EQ(writers.writer_of(2), 2);
  EXPECT_FALSE(writers.writes(3));
}

}  // namespace
}  // namespace lmtrain
