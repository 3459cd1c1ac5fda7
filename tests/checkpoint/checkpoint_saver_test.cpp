// Checkpoints saved beside training: when a save is there, who is told, and what a failure does.
#include "checkpoint/checkpoint_saver.h"

#include <thread>

#include "base/support.h"
#include "checkpoint/checkpoint.h"
#include "formats/tensor_files.h"
#include "model/hf_folder.h"
#include "training/tiny_model.h"

namespace lmtrain {
namespace {

namespace fs = std::filesystem;
using testing::error_of;
using testing::TemporaryFolder;
using testing::TinyModel;

class CheckpointSaverTest : public ::testing::TestWithParam<bool> {
 protected:
  CheckpointSaverTest() {
    config.async = GetParam();
    config.keep = 2;
    fs::create_directories(run.checkpoints());
  }
  CheckpointSaver saver() {
    return CheckpointSaver(
        config.async,
        [this](const TrainingState& state, double seconds) {
          EXPECT_EQ(std::this_thread::get_id(), owner);
          EXPECT_GE(seconds, 0);
          EXPECT_TRUE(fs::exists(run.checkpoint(state.step))) << "told before it is published";
          saved.push_back(state.step);
        },
        [this](const TrainingState& state, const std::exception_ptr& failure) {
          EXPECT_EQ(std::this_thread::get_id(), owner);
          failed.push_back(state.step);
          if (ends_the_run) std::rethrow_exception(failure);
        });
  }
  CheckpointSnapshot snapshot(int64_t step) const {
    CheckpointSnapshot snapshot;
    snapshot.state.step = step;
    snapshot.masters = {{0, model.parameters.master().clone()}};
    return snapshot;
  }
  void save(CheckpointSaver& saver, const CheckpointSnapshot& snapshot) const {
    saver.save(snapshot.state, [this, snapshot] {
      write_checkpoint(run, texts, model.parameters.layout(), snapshot, config);
    });
  }
  // A file is where the folder of checkpoints should be.
  void obstruct() {
    fs::remove(run.checkpoints());
    testing::replace_file(run.checkpoints(), "in the way");
  }
  void clear() {
    fs::remove(run.checkpoints());
    fs::create_directory(run.checkpoints());
  }

  using Steps = std::vector<int64_t>;
  const std::thread::id owner = std::this_thread::get_id();
  TemporaryFolder folder;
  RunFolder run{folder / "run"};
  CheckpointConfig config;
  CheckpointTexts texts{"{}", "{}", {{"tokenizer.model", "a tokenizer"}}};
  TinyModel model;
  bool ends_the_run = false;
  Steps saved, failed;
};

TEST_P(CheckpointSaverTest, AfterWaitingItIsThereAndTold) {
  CheckpointSaver saver = this->saver();
  save(saver, snapshot(5));
  if (!config.async) {
    EXPECT_EQ(saved, Steps{5}) << "at once";
  }
  saver.wait();
  EXPECT_EQ(saved, Steps{5});
  EXPECT_EQ(newest_valid_checkpoint(run, /*skip_training_state=*/false), 5);
  // Nothing is told twice.
  saver.wait();
  saver.poll();
  EXPECT_EQ(saved, Steps{5});
}

TEST_P(CheckpointSaverTest, ASecondSaveWaitsForTheFirst) {
  CheckpointSaver saver = this->saver();
  save(saver, snapshot(5));
  save(saver, snapshot(10));
  ASSERT_FALSE(saved.empty());
  EXPECT_EQ(saved.front(), 5);
  save(saver, snapshot(15));
  saver.wait();
  EXPECT_EQ(saved, (Steps{5, 10, 15}));
  EXPECT_EQ(run.checkpoint_steps(), (Steps{15, 10})) << "the newest two are kept";
}

// Training goes on while it is written.
TEST_P(CheckpointSaverTest, WritesTheSnapshotAsItWasTaken) {
  CheckpointSaver saver = this->saver();
  const CheckpointSnapshot first = snapshot(5);
  save(saver, first);
  model.parameters.master().fill_(7);
  saver.wait();
  Parameters read(model.parameters.layout(), at::kFloat, at::kCPU);
  load_weights(TensorFiles(run.checkpoint(5)), read);
  for (const ParameterSpec& spec : read.layout().parameters()) {
    const at::Tensor expected =
        first.masters[0].values.narrow(0, spec.offset, spec.numel()).view(spec.shape);
    EXPECT_TRUE(at::equal(read.master_view(spec), expected)) << spec.name;
  }
}

TEST_P(CheckpointSaverTest, AFailureIsToldAndTheNextSaveIsMade) {
  fs::create_directories(run.path());
  obstruct();
  CheckpointSaver saver = this->saver();
  save(saver, snapshot(5));
  saver.wait();
  EXPECT_EQ(failed, Steps{5});
  EXPECT_TRUE(saved.empty());
  clear();
  save(saver, snapshot(10));
  saver.wait();
  EXPECT_EQ(saved, Steps{10});
  EXPECT_EQ(failed, Steps{5});
}

TEST_P(CheckpointSaverTest, AFailureEndsTheRunWhereItIsToldTo) {
  fs::create_directories(run.path());
  obstruct();
  ends_the_run = true;
  CheckpointSaver saver = this->saver();
  error_of(ErrorKind::kIo, [&] {
    save(saver, snapshot(5));
    saver.wait();
  });
  EXPECT_EQ(failed, Steps{5});
  saver.wait();  // it was told once
  EXPECT_EQ(failed, Steps{5});
}

// The end of a run that has another error already.
TEST_P(CheckpointSaverTest, WaitingAtTheEndOnlyWarns) {
  fs::create_directories(run.path());
  obstruct();
  ends_the_run = true;
  CheckpointSaver saver = this->saver();
  if (config.async) save(saver, snapshot(5));
  ::testing::internal::CaptureStderr();
  saver.wait_or_warn();
  const std::string log = ::testing::internal::GetCapturedStderr();
  EXPECT_EQ(log.find("warning: ") != std::string::npos, config.async) << log;
  clear();
  ends_the_run = false;
  save(saver, snapshot(10));
  while (saved.empty()) saver.poll();
  saver.wait_or_warn();
  EXPECT_EQ(saved, Steps{10});
}

// A folder that was deleted while the run trains would be begun anew, without the run's config.
TEST_P(CheckpointSaverTest, ARunFolderThatIsGoneIsNotMadeAgain) {
  fs::remove_all(run.path());
  ends_the_run = true;
  CheckpointSaver saver = this->saver();
  const std::string message = error_of(ErrorKind::kIo, [&] {
    save(saver, snapshot(5));
    saver.wait();
  });
  EXPECT_NE(message.find(run.path().string() + " is gone"), std::string::npos) << message;
  EXPECT_FALSE(fs::exists(run.path()));
}

TEST_P(CheckpointSaverTest, LetGoItFinishesAndTellsNobody) {
  {
    CheckpointSaver saver = this->saver();
    save(saver, snapshot(5));
  }
  EXPECT_EQ(newest_valid_checkpoint(run, /*skip_training_state=*/false), 5);
  EXPECT_EQ(saved, config.async ? Steps{} : Steps{5});
}

INSTANTIATE_TEST_SUITE_P(Async, CheckpointSaverTest, ::testing::Bool(),
                         [](const auto& async) { return async.param ? "on" : "off"; });

}  // namespace
}  // namespace lmtrain
