#include "checkpoint/run_folder.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <nlohmann/json.hpp>

#include "base/random.h"
#include "base/support.h"

namespace lmtrain {
namespace {

namespace fs = std::filesystem;
using testing::error_of;
using testing::exit_code_of;
using testing::replace_file;
using testing::TemporaryFolder;

RunIdentity branch() {
  return {.id = random_id(),
          .branch_of = BranchPoint{random_id(), "/runs/a", 25},
          .init_from = "the digest"};
}

nlohmann::json config_of(const RunIdentity& identity) {
  return {{"name", "a"}, {kIdentityKey, nlohmann::json(identity_json(identity))}};
}

TEST(RunIdentity, NoTwoRunsHaveOneId) {
  const std::string id = random_id();
  EXPECT_EQ(id.size(), 32U);
  EXPECT_EQ(id.find_first_not_of("0123456789abcdef"), std::string::npos) << id;
  EXPECT_NE(random_id(), id);
}

TEST(RunIdentity, IsReadAsItWasWritten) {
  for (const RunIdentity& identity : {RunIdentity(), RunIdentity{.id = random_id()}, branch()})
    EXPECT_EQ(identity_in(config_of(identity)), identity);
}

// Half an identity would let a run go on from checkpoints of another.
TEST(RunIdentity, WhatIsNoneIsEmpty) {
  const nlohmann::json whole = config_of(branch());
  EXPECT_EQ(identity_in(nlohmann::json::object()), RunIdentity());
  for (const auto& [key, value] : whole.at(kIdentityKey).items()) {
    nlohmann::json missing = whole;
    missing.at(kIdentityKey).erase(key);
    EXPECT_EQ(identity_in(missing), RunIdentity()) << key;
    nlohmann::json wrong = whole;
    wrong.at(kIdentityKey)[key] = 5;
    EXPECT_EQ(identity_in(wrong), RunIdentity()) << key;
  }
}

TEST(RunFolder, CheckpointNamesSortByStep) {
  const RunFolder run("/runs/a");
  EXPECT_EQ(run.checkpoint(0), "/runs/a/checkpoints/step_00000000");
  EXPECT_EQ(run.checkpoint(1000), "/runs/a/checkpoints/step_00001000");
  EXPECT_EQ(run.checkpoint(123456789012), "/runs/a/checkpoints/step_123456789012");
  EXPECT_EQ(run.unfinished_checkpoint(7), "/runs/a/checkpoints/.tmp-step_00000007");
}

TEST(RunFolder, CheckpointStepsAreThoseThatWerePublished) {
  const TemporaryFolder folder;
  const RunFolder run(folder.path());
  EXPECT_TRUE(run.checkpoint_steps().empty());  // no checkpoints/ yet
  for (const int64_t step : {0, 30, 9, 100000000, 99999999}) {
    fs::create_directories(run.checkpoint(step));
  }
  fs::create_directories(run.unfinished_checkpoint(40));
  // What else people and programs put there.
  for (const char* name : {"step_", "step_5", "step_0000005x", "step_000000050", "step_-0000001",
                           "step_+0000001", "best", "step_00000030 (copy)", "STEP_00000031"}) {
    fs::create_directories(run.checkpoints() / name);
  }
  EXPECT_EQ(run.checkpoint_steps(), (std::vector<int64_t>{100000000, 99999999, 30, 9, 0}));
}

// As few descriptors as it takes: a folder that cannot be listed is no folder without checkpoints.
TEST(RunFolder, CheckpointsThatCannotBeListedAreAnError) {
  const TemporaryFolder folder;
  const RunFolder run(folder.path());
  fs::create_directories(run.checkpoint(3));
  EXPECT_EQ(exit_code_of([&] {
              const rlimit none{0, 0};
              if (::setrlimit(RLIMIT_NOFILE, &none) != 0) return 1;
              try {
                run.checkpoint_steps();
              } catch (const Error& error) {
                const std::string message = error.what();
                const bool named = message.find(run.checkpoints().string()) != std::string::npos;
                return error.kind() == ErrorKind::kIo && named ? 0 : 2;
              }
              return 3;
            }),
            0);
}

TEST(RunFolder, RemovesOnlyWhatIsUnfinished) {
  const TemporaryFolder folder;
  const RunFolder run(folder.path());
  run.remove_unfinished();  // nothing there is fine
  fs::create_directories(run.checkpoint(3));
  fs::create_directories(run.unfinished_checkpoint(4) / "deeper");
  replace_file(run.unfinished_checkpoint(4) / "deeper/file", "x");
  run.remove_unfinished();
  EXPECT_TRUE(fs::exists(run.checkpoint(3)));
  EXPECT_FALSE(fs::exists(run.unfinished_checkpoint(4)));
}

TEST(RunFolder, HoldsARunOnceItsConfigExists) {
  const TemporaryFolder folder;
  const RunFolder run(folder.path());
  fs::create_directories(run.checkpoints());
  EXPECT_FALSE(run.holds_run());
  replace_file(run.config(), "{}");
  EXPECT_TRUE(run.holds_run());
}

TEST(RunFolder, ThatIsGoneIsAnError) {
  const TemporaryFolder folder;
  const RunFolder run(folder / "run");
  const std::string message = error_of(ErrorKind::kIo, [&] { run.require_there(); });
  EXPECT_EQ(message, "the run folder " + run.path().string() +
                         " is gone: it was deleted or moved while the run was trained");
  fs::create_directories(run.path());
  run.require_there();
}

TEST(RunFolder, LockIsForOneProcess) {
  const TemporaryFolder folder;
  const RunFolder run(folder / "new/run");
  const auto try_in_child = [&] {
    return exit_code_of([&] {
      try {
        const RunLock lock = run.lock();
      } catch (const Error& error) {
        return error.kind() == ErrorKind::kUsage ? 2 : 1;
      }
      return 0;
    });
  };
  {
    const RunLock lock = run.lock();  // creates the folder
    EXPECT_EQ(try_in_child(), 2);
    fs::remove(run.path() / ".lock");
    EXPECT_EQ(try_in_child(), 2) << "without .lock";
    EXPECT_EQ(try_in_child(), 2) << "with another .lock";
  }
  {
    FileLock earlier;  // as an lmtrain that locks nothing else
    ASSERT_TRUE(earlier.try_acquire(run.path() / ".lock"));
    EXPECT_EQ(try_in_child(), 2);
  }
  EXPECT_EQ(try_in_child(), 0);
}

TEST(RunFolder, NoModelIsWrittenWhereACheckpointBelongs) {
  const TemporaryFolder folder;
  const RunFolder run(folder.path());
  lmtrain::create_directories(run.checkpoints());
  require_no_checkpoint_path(run.checkpoint(9));  // no run
  replace_file(run.config(), "{}");
  for (const fs::path& path :
       {run.checkpoint(9), run.checkpoint(9) / "", run.unfinished_checkpoint(9)}) {
    EXPECT_NE(error_of(ErrorKind::kUsage, [&] { require_no_checkpoint_path(path); })
                  .find("has the name of a checkpoint of the run"),
              std::string::npos);
  }
  require_no_checkpoint_path(run.checkpoints() / "mean");
  require_no_checkpoint_path(run.path() / "step_00000009");
}

}  // namespace

}  // namespace lmtrain
