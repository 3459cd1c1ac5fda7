// Checkpoints that several processes write together; the processes are threads of the test.
#include "checkpoint/shared_save.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/support.h"
#include "distributed/divided_config.h"
#include "distributed/group.h"
#include "formats/manifest.h"
#include "formats/tensor_files.h"
#include "optim/make_optimizer.h"
#include "support/tensors.h"
#include "training/tiny_model.h"

namespace lmtrain {
namespace {

namespace fs = std::filesystem;
using testing::error_of;
using testing::TemporaryFolder;
using testing::TinyModel;

class DividedFilesTest : public ::testing::TestWithParam<CheckpointDType> {
 protected:
  DividedFilesTest() {
    fs::create_directories(run.checkpoints());
    model.parameters.master().copy_(testing::random_tensor(model.parameters.master().sizes(), 1));
    uint64_t seed = 1;
    for (const OptimizerBuffer& buffer : optimizer->buffers())
      buffer.values.copy_(testing::random_tensor(buffer.values.sizes(), ++seed));
  }
  // Returns what each of `count` processes writes: every third tensor of the layout begins the part
  // of the next one, so that a process has several ranges.
  std::vector<CheckpointSnapshot> parts(size_t count) const {
    std::vector<CheckpointSnapshot> parts(count);
    const std::vector<ParameterSpec>& specs = layout.parameters();
    for (size_t i = 0; i < specs.size(); ++i) {
      CheckpointSnapshot& part = parts[i / 3 % count];
      part.masters.push_back({specs[i].offset, model.parameters.master().narrow(0, specs[i].offset,
                                                                                specs[i].numel())});
      for (const OptimizerBuffer& buffer : optimizer->buffers())
        if (buffer.name.ends_with("." + specs[i].name)) part.buffers.push_back(buffer);
    }
    return parts;
  }
  std::vector<WrittenChunks> write(const std::vector<CheckpointSnapshot>& parts) const {
    std::vector<WrittenChunks> written;
    for (size_t i = parts.size(); i-- > 0;)
      written.push_back(files.write(folder.path(), parts[i], /*with_headers=*/i == 0));
    return written;
  }

  TemporaryFolder folder;
  RunFolder run{folder / "run"};
  TinyModel model;
  ParameterLayout layout = model.parameters.layout();
  std::unique_ptr<Optimizer> optimizer = make_optimizer(OptimizerConfig{}, model.parameters);
  DividedFiles files{layout, optimizer->buffers(), GetParam()};
};

TEST_P(DividedFilesTest, AreThoseOfOneProcess) {
  write_checkpoint(run, {"{}", "{}", {}}, layout,
                   {TrainingState{}, {{0, model.parameters.master()}}, optimizer->buffers()},
                   {.keep = 1, .dtype = GetParam()});
  const fs::path whole = run.checkpoint(0);
  const Manifest manifest = verify_checkpoint_files(whole, /*skip_training_state=*/false);
  for (const size_t count : {1, 2, 4}) {
    files.create(folder.path());
    for (const auto& [name, entry] : files.join(write(parts(count)))) {
      EXPECT_EQ(read_file(folder / name), read_file(whole / name)) << name;
      EXPECT_EQ(entry, manifest.files.at(name)) << name;
    }
  }
  EXPECT_EQ(files.bytes(),
            fs::file_size(whole / kModelFile) + fs::file_size(whole / kOptimizerFile));
}

TEST_P(DividedFilesTest, APartThatIsMissingOrTwiceThereIsNoCheckpoint) {
  files.create(folder.path());
  const std::vector<WrittenChunks> written = write(parts(3));
  files.join(written);
  for (size_t i = 0; i < written.size(); ++i) {
    std::vector<WrittenChunks> fewer = written, more = written;
    fewer.erase(fewer.begin() + static_cast<std::ptrdiff_t>(i));
    more.push_back(written[i]);
    error_of(ErrorKind::kInternal, [&] { files.join(fewer); });
    error_of(ErrorKind::kInternal, [&] { files.join(more); });
  }
}

TEST_P(DividedFilesTest, NothingIsMadeInAFolderThatWasRemoved) {
  const fs::path gone = folder / "gone";
  error_of(ErrorKind::kIo, [&] { files.write(gone, parts(1)[0], /*with_headers=*/true); });
  EXPECT_FALSE(fs::exists(gone));
  fs::create_directory(gone);  // of another attempt: it has no files yet
  error_of(ErrorKind::kIo, [&] { files.write(gone, parts(1)[0], /*with_headers=*/true); });
  EXPECT_TRUE(fs::is_empty(gone));
}

INSTANTIATE_TEST_SUITE_P(In, DividedFilesTest,
                         ::testing::Values(CheckpointDType::kFp32, CheckpointDType::kBf16),
                         [](const auto& dtype) {
                           return dtype.param == CheckpointDType::kBf16 ? "bf16" : "fp32";
                         });

const CheckpointTexts kTexts{"{}", "{}", {{"tokenizer.model", "a tokenizer"}}};

// A process that saves, with values that are the same in all runs of one seed.
class Saver {
 public:
  Saver(Processes& processes, const Config& config, CheckpointWriters writers, const RunFolder& run)
      : shards_(processes, config, CommThreads(processes)),
        parameters_(testing::layout_of(config), at::kFloat, at::kCPU),
        optimizer_(make_optimizer(config.optimizer, parameters_, shards_.owned())),
        run_(run),
        save_(processes, shards_, std::move(writers), run_, kTexts, parameters_.layout(),
              config.checkpoint) {
    parameters_.master().copy_(testing::random_tensor(parameters_.master().sizes(), 1));
    for (const OptimizerBuffer& buffer : optimizer_->buffers())
      buffer.values.copy_(testing::random_tensor(buffer.values.sizes(), buffer.name.size()));
  }
  CheckpointSnapshot snapshot(int64_t step) {
    TrainingState state;
    state.step = step;
    return save_.snapshot(state, parameters_, *optimizer_);
  }
  void save(int64_t step) {
    const auto attempt = save_.new_attempt(true);
    const CheckpointSnapshot taken = snapshot(step);
    if (save_.writes()) save_.write(attempt.value(), taken);
  }
  const SharedSave& shared() const { return save_; }

 private:
  OptimizerShards shards_;
  Parameters parameters_;
  std::unique_ptr<Optimizer> optimizer_;
  RunFolder run_;
  SharedSave save_;
};

class SharedSaveTest : public ::testing::Test {
 protected:
  SharedSaveTest() { fs::create_directories(run.checkpoints()); }
  static Config config_of(CheckpointDType dtype) {
    Config config = testing::divided_config();
    config.checkpoint.dtype = dtype;
    return config;
  }
  // Returns all files of a checkpoint, but for the run that it names.
  std::map<std::string, std::string> files_of(const RunFolder& of, int64_t step) const {
    std::map<std::string, std::string> files;
    for (const auto& entry : fs::directory_iterator(of.checkpoint(step)))
      files[entry.path().filename().string()] = read_file(entry.path());
    return files;
  }
  bool has_unfinished() const {
    for (const auto& entry : fs::directory_iterator(run.checkpoints()))
      if (entry.path().filename().string().starts_with(".tmp-")) return true;
    return false;
  }

  TemporaryFolder folder;
  RunFolder run{folder / "run"};
};

// Whoever writes, and in any number of processes: the checkpoint of one.
TEST_F(SharedSaveTest, HasTheBytesOfOneProcess) {
  for (const CheckpointDType dtype : {CheckpointDType::kFp32, CheckpointDType::kBf16}) {
    const Config config = config_of(dtype);
    const RunFolder one(folder / (dtype == CheckpointDType::kBf16 ? "bf16" : "fp32"));
    fs::create_directories(one.checkpoints());
    Saver(only_process(), config, {}, one).save(7);
    const auto expected = files_of(one, 7);
    ASSERT_EQ(expected.size(), 7U);
    const std::vector<std::vector<bool>> cases = {
        {true, true}, {true, false}, {true, true, true}, {true, false, true, true}};
    for (const std::vector<bool>& writes : cases) {
      fs::remove_all(run.checkpoint(7));
      as_ranks(static_cast<int>(writes.size()), [&](Processes& processes) {
        Saver(processes, config, CheckpointWriters(writes), run).save(7);
      });
      EXPECT_EQ(files_of(run, 7), expected) << writes.size();
      verify_checkpoint(run, 7, /*skip_training_state=*/false);
      EXPECT_FALSE(has_unfinished());
    }
  }
}

// Saves follow each other, also those that are called off, whichever process is late.
TEST_F(SharedSaveTest, OneAfterAnother) {
  const Config config = config_of(CheckpointDType::kFp32);
  as_ranks(3, [&](Processes& processes) {
    Saver saver(processes, config, CheckpointWriters({true, true, true}), run);
    EXPECT_FALSE(saver.shared().new_attempt(!processes.is_first()).has_value());
    for (const int64_t step : {1, 2}) saver.save(step);
    const auto attempt = saver.shared().new_attempt(processes.is_first());
    ASSERT_TRUE(attempt.has_value());
    if (processes.is_first()) {
      saver.shared().call_off(*attempt);
    } else {
      saver.shared().write(*attempt, saver.snapshot(3));
    }
    saver.save(4);
  });
  EXPECT_EQ(run.checkpoint_steps(), (std::vector<int64_t>{4, 2, 1}));
  for (const int64_t step : {1, 2, 4}) verify_checkpoint(run, step, false);
}

// What rank 0 cannot begin, the others do not wait for.
TEST_F(SharedSaveTest, AFailureOfTheFirstIsNoTroubleToTheOthers) {
  const Config config = config_of(CheckpointDType::kFp32);
  as_ranks(2, [&](Processes& processes) {
    Saver saver(processes, config, CheckpointWriters({true, true}), run);
    saver.save(1);
    processes.barrier();
    if (processes.is_first()) {
      fs::rename(run.checkpoints(), folder / "aside");
      testing::replace_file(run.checkpoints(), "in the way");
      error_of(ErrorKind::kIo, [&] { saver.save(2); });
      fs::remove(run.checkpoints());
      fs::rename(folder / "aside", run.checkpoints());
    } else {
      saver.save(2);
    }
    saver.save(3);
  });
  EXPECT_EQ(run.checkpoint_steps(), (std::vector<int64_t>{3, 1}));
}

// A process whose tensors are not those of the files fails the save of rank 0, which names it.
TEST_F(SharedSaveTest, AFailureOfAnotherIsThatOfTheFirstWithItsName) {
  const Config config = config_of(CheckpointDType::kFp32);
  as_ranks(3, [&](Processes& processes) {
    Saver saver(processes, config, CheckpointWriters({true, true, true}), run);
    saver.save(1);
    const std::string attempt = saver.shared().new_attempt(true).value();
    CheckpointSnapshot taken = saver.snapshot(2);
    if (processes.rank() == 1) taken.buffers.at(0).name = "momentum.of.none";
    if (!processes.is_first()) return saver.shared().write(attempt, taken);
    const std::string message =
        error_of(ErrorKind::kInternal, [&] { saver.shared().write(attempt, taken); });
    EXPECT_NE(message.find("rank 1 ("), std::string::npos) << message;
    EXPECT_NE(message.find("momentum.of.none"), std::string::npos) << message;
  });
  EXPECT_EQ(run.checkpoint_steps(), std::vector<int64_t>{1});
  EXPECT_FALSE(has_unfinished());
  verify_checkpoint(run, 1, /*skip_training_state=*/false);
}

// A process that ends in the middle of a save takes nothing with it but that save.
TEST_F(SharedSaveTest, OfALostProcessIsNotPublished) {
  const Config config = config_of(CheckpointDType::kFp32);
  std::string cause;
  EXPECT_THROW(as_ranks(2,
                        [&](Processes& processes) {
                          Saver saver(processes, config, CheckpointWriters({true, true}), run);
                          saver.save(1);
                          const std::string attempt = saver.shared().new_attempt(true).value();
                          const CheckpointSnapshot taken = saver.snapshot(2);
                          if (!processes.is_first()) {
                            processes.give_up(6, "out of memory");
                            throw ProcessLost(6, "itself");
                          }
                          try {
                            saver.shared().write(attempt, taken);
                          } catch (const ProcessLost& lost) {
                            cause = lost.what();
                            throw;
                          }
                        }),
               ProcessLost);
  EXPECT_NE(cause.find("out of memory"), std::string::npos) << cause;
  EXPECT_EQ(run.checkpoint_steps(), std::vector<int64_t>{1});
  EXPECT_FALSE(has_unfinished());
}

}  // namespace

}  // namespace lmtrain
