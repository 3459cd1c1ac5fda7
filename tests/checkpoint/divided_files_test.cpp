// The tensor files of a checkpoint that several processes write have the bytes of one process's.
#include "checkpoint/divided_files.h"

#include "base/support.h"
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
  std::vector<WrittenPieces> write(const std::vector<CheckpointSnapshot>& parts) const {
    std::vector<WrittenPieces> written;
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
  const std::vector<WrittenPieces> written = write(parts(3));
  files.join(written);
  for (size_t i = 0; i < written.size(); ++i) {
    std::vector<WrittenPieces> fewer = written, more = written;
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

}  // namespace
}  // namespace lmtrain
