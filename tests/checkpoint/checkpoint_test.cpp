// Checkpoints as files: what is loaded, what is kept, and which may be gone on from.
#include "checkpoint/checkpoint.h"

#include <random>
#include <set>

#include "base/killed_at_call.h"
#include "base/support.h"
#include "checkpoint/retention.h"
#include "device/host_copier.h"
#include "formats/manifest.h"
#include "formats/tensor_files.h"
#include "model/hf_folder.h"
#include "optim/make_optimizer.h"
#include "support/tensors.h"
#include "training/tiny_model.h"

namespace lmtrain {
namespace {

namespace fs = std::filesystem;
using testing::error_of;
using testing::TemporaryFolder;
using testing::TinyModel;

class CheckpointTest : public ::testing::Test {
 protected:
  CheckpointTest() { fs::create_directories(run.checkpoints()); }
  // Weights and moments that belong to a step and to no other.
  void fill(double value) {
    model.parameters.master().fill_(value);
    for (const OptimizerBuffer& buffer : optimizer->buffers()) buffer.values.fill_(-value);
  }
  CheckpointSnapshot snapshot(int64_t step, bool kept = false) const {
    TrainingState state;
    state.step = step;
    state.tokens = 100 * step;
    state.fingerprint = "the data";
    state.kept = kept;
    std::vector<OptimizerBuffer> copies;
    for (const OptimizerBuffer& buffer : optimizer->buffers())
      copies.push_back({buffer.name, HostCopier().copy(buffer.values)});
    return {state, {{0, HostCopier().copy(model.parameters.master())}}, std::move(copies)};
  }
  void write(const RunFolder& to, int64_t step, int64_t keep = 2, bool kept = false) const {
    write_checkpoint(to, texts, model.parameters.layout(), snapshot(step, kept), {.keep = keep});
  }
  std::optional<int64_t> newest() const {
    return newest_valid_checkpoint(run, /*skip_training_state=*/false);
  }
  void damage(int64_t step) const {
    const fs::path file = run.checkpoint(step) / "model.safetensors";
    std::string bytes = read_file(file);
    bytes.back() = static_cast<char>(bytes.back() ^ 1);
    testing::replace_file(file, bytes);
  }

  TemporaryFolder folder;
  RunFolder run{folder / "run", RunIdentity{.id = "this run"}};
  CheckpointTexts texts{"{}", "{}", {{"tokenizer.model", "a tokenizer"}}};
  TinyModel model;
  std::unique_ptr<Optimizer> optimizer = make_optimizer(OptimizerConfig(), model.parameters);
};

TEST_F(CheckpointTest, LoadsWeightsOptimizerAndState) {
  fill(0.5);
  write(run, 5);
  fill(3);
  const TrainingState state = load_checkpoint(run.checkpoint(5), model.parameters);
  const ReadBuffer read = optimizer_reader(run.checkpoint(5));
  for (const OptimizerBuffer& buffer : optimizer->buffers()) buffer.values.copy_(read(buffer));
  EXPECT_EQ(state.step, 5);
  EXPECT_EQ(state.tokens, 500);
  EXPECT_EQ(state.run, "this run");
  const ParameterLayout& layout = model.parameters.layout();
  for (const ParameterSpec& spec : layout.parameters())
    EXPECT_TRUE(model.parameters.master_view(spec).eq(0.5).all().item<bool>()) << spec.name;
  ASSERT_FALSE(optimizer->buffers().empty());
  for (const OptimizerBuffer& buffer : optimizer->buffers())
    EXPECT_TRUE(buffer.values.eq(-0.5).all().item<bool>()) << buffer.name;
}

// Weights of 16 bits for those who read the model, masters to the bit for a resume.
TEST_F(CheckpointTest, InBf16ItHoldsTheMastersBesideTheWeights) {
  model.parameters.initialize(3, 0.02);
  const at::Tensor masters = HostCopier().copy(model.parameters.master());
  const CheckpointConfig bf16{.keep = 1, .dtype = CheckpointDType::kBf16};
  write_checkpoint(run, texts, model.parameters.layout(), snapshot(5), bf16);
  const ParameterLayout& layout = model.parameters.layout();
  const TensorFiles files(run.checkpoint(5));
  EXPECT_EQ(files.tensors().size(), layout.parameters().size());
  Parameters weights(layout, at::kFloat, at::kCPU);
  load_weights(files, weights);
  for (const ParameterSpec& spec : layout.parameters()) {
    EXPECT_EQ(files.at(spec.name).dtype, DType::kBF16) << spec.name;
    EXPECT_TRUE(
        testing::same_bits(weights.master_view(spec),
                           model.parameters.master_view(spec).to(at::kBFloat16).to(at::kFloat)))
        << spec.name;
  }
  EXPECT_FALSE(weights.master().equal(masters));

  fill(3);
  load_checkpoint(run.checkpoint(5), model.parameters);
  for (const ParameterSpec& spec : layout.parameters()) {
    EXPECT_TRUE(testing::same_bits(model.parameters.master_view(spec),
                                   masters.narrow(0, spec.offset, spec.numel()).view(spec.shape)))
        << spec.name;
  }
  EXPECT_EQ(newest(), 5);
  damage(5);
  error_of(ErrorKind::kCheckpoint, [&] { newest(); });
}

TEST_F(CheckpointTest, ALinkThatLeadsNowhereIsPassedOver) {
  write(run, 5);
  fs::create_symlink(run.path() / "moved", run.checkpoint(6));
  EXPECT_EQ(newest(), 5);
}

// A checkpoint opens in transformers as it is: it has the tokenizer and the ids of its pieces.
TEST_F(CheckpointTest, TheTextsAreThoseOfModelAndTokenizer) {
  Config config;
  config.model.vocab_size = 512;
  config.sequence.max_length = 77;
  const fs::path file = fs::path(LMTRAIN_SOURCE_DIR) / "tests/reference/tokenizer/tokenizer.model";
  const Tokenizer tokenizer = Tokenizer::load(file);
  const CheckpointTexts made = checkpoint_texts(config, tokenizer);
  for (const char* part : {"\"max_position_embeddings\": 77", "\"vocab_size\": 512"})
    EXPECT_NE(made.hf_config.find(part), std::string::npos) << made.hf_config;
  const std::string eos = "\"eos_token_id\": " + std::to_string(tokenizer.eos_id());
  EXPECT_NE(made.hf_config.find(eos), std::string::npos) << made.hf_config;
  EXPECT_NE(made.generation_config.find(eos), std::string::npos) << made.generation_config;
  ASSERT_EQ(made.tokenizer.size(), 2U);
  EXPECT_EQ(made.tokenizer[0].name, "tokenizer.model");
  EXPECT_EQ(made.tokenizer[0].bytes, read_file(file));
  EXPECT_EQ(made.tokenizer[1].name, "tokenizer_config.json");
}

// Several processes write one file by these descriptions: they must be those of what is written.
TEST_F(CheckpointTest, TheFilesAreAsTheyAreDescribed) {
  for (const CheckpointDType dtype : {CheckpointDType::kFp32, CheckpointDType::kBf16}) {
    const CheckpointSnapshot written = snapshot(5);
    const std::vector<CheckpointFile> described =
        describe_tensor_files(model.parameters.layout(), written.buffers, dtype);
    size_t next = 0;
    for_each_tensor_file(model.parameters.layout(), written, dtype,
                         [&](const CheckpointFile& file) {
                           ASSERT_LT(next, described.size());
                           const CheckpointFile& expected = described[next++];
                           EXPECT_EQ(file.name, expected.name);
                           EXPECT_EQ(file.metadata, expected.metadata);
                           ASSERT_EQ(file.tensors.size(), expected.tensors.size());
                           for (size_t i = 0; i < file.tensors.size(); ++i) {
                             EXPECT_EQ(file.tensors[i].name, expected.tensors[i].name);
                             EXPECT_EQ(file.tensors[i].dtype, expected.tensors[i].dtype);
                             EXPECT_EQ(file.tensors[i].shape, expected.tensors[i].shape);
                             EXPECT_EQ(expected.tensors[i].data, nullptr);
                           }
                         });
    EXPECT_EQ(next, described.size());
  }
}

// The weights alone are not what a run goes on from.
TEST_F(CheckpointTest, InBf16WithoutMastersItIsNotLoaded) {
  write_checkpoint(run, texts, model.parameters.layout(), snapshot(5),
                   {.keep = 1, .dtype = CheckpointDType::kBf16});
  write(run, 6);
  fs::copy_file(run.checkpoint(6) / kOptimizerFile, run.checkpoint(5) / kOptimizerFile,
                fs::copy_options::overwrite_existing);
  const std::string problem =
      error_of(ErrorKind::kData, [&] { load_checkpoint(run.checkpoint(5), model.parameters); });
  EXPECT_NE(problem.find("master.model.embed_tokens.weight"), std::string::npos) << problem;
}

TEST_F(CheckpointTest, ASnapshotIsACopy) {
  fill(0.5);
  const CheckpointSnapshot taken = snapshot(5);
  fill(3);
  EXPECT_TRUE(taken.masters.at(0).values.eq(0.5).all().item<bool>());
  EXPECT_TRUE(taken.buffers.at(0).values.eq(-0.5).all().item<bool>());
}

TEST_F(CheckpointTest, TheNewestAreKeptAndThoseThatAreKeptForGood) {
  write(run, 5, 2, /*kept=*/true);
  for (const int64_t step : {10, 15, 20}) write(run, step);
  EXPECT_EQ(run.checkpoint_steps(), (std::vector<int64_t>{20, 15, 5}));
  // Those of a future that a resume has left do not count among the newest.
  write(run, 12);
  EXPECT_EQ(run.checkpoint_steps(), (std::vector<int64_t>{20, 15, 12, 5}));
}

// The only checkpoint of a run, published again: killed before or after any system call of it, the
// run has a valid checkpoint of this step, the one before or the one after.
TEST_F(CheckpointTest, OneThatIsPublishedAgainIsValidAtAnyMoment) {
  using testing::ChildEnd;
  const auto batch_there = [&] {
    const fs::path file = run.checkpoint(5) / "state.json";
    return parse_state(read_file(file), file.string()).batch;
  };
  write(run, 5);
  CheckpointSnapshot again = snapshot(5);
  again.state.batch = 7;
  bool seen_old = false, seen_new = false;
  ChildEnd end = ChildEnd::kKilled;
  for (int moment = 0; end == ChildEnd::kKilled; ++moment) {
    end = testing::killed_at_call(moment, [&] {
      write_checkpoint(run, texts, model.parameters.layout(), again, {.keep = 1});
    });
    if (end == ChildEnd::kUntraceable) GTEST_SKIP() << "no process may be traced here";
    ASSERT_NE(end, ChildEnd::kFailed);
    ASSERT_EQ(newest(), 5) << "moment " << moment;
    const bool is_new = batch_there() == 7;
    (is_new ? seen_new : seen_old) = true;
    run.put_back_replaced();
    run.remove_unfinished();
    if (is_new) write(run, 5);
  }
  EXPECT_TRUE(seen_old);
  EXPECT_TRUE(seen_new);
}

// The next one, before or after the one before it is removed.
TEST_F(CheckpointTest, WhileAnOlderOneIsRemovedAValidOneIsThereAtAnyMoment) {
  using testing::ChildEnd;
  ChildEnd end = ChildEnd::kKilled;
  std::set<int64_t> seen;
  for (int moment = 0; end == ChildEnd::kKilled; ++moment) {
    fs::remove_all(run.checkpoints());
    fs::create_directories(run.checkpoints());
    write(run, 5);
    end = testing::killed_at_call(moment, [&] { write(run, 10, /*keep=*/1); });
    if (end == ChildEnd::kUntraceable) GTEST_SKIP() << "no process may be traced here";
    ASSERT_NE(end, ChildEnd::kFailed);
    const std::optional<int64_t> valid = newest();
    ASSERT_TRUE(valid.has_value()) << "moment " << moment;
    seen.insert(*valid);
  }
  EXPECT_EQ(seen, (std::set<int64_t>{5, 10}));
}

// Any mixture of damaged, valid and kept ones, on both sides of the step that is saved or resumed.
TEST_F(CheckpointTest, RetentionNeverRemovesTheLastValidOne) {
  std::mt19937_64 random(20261125);
  const auto chance = [&](int one_in) { return random() % one_in == 0; };
  for (int round = 0; round < 60; ++round) {
    fs::remove_all(run.checkpoints());
    fs::create_directories(run.checkpoints());
    for (int64_t step = 1; step <= 6; ++step) {
      write(run, step, /*keep=*/100, /*kept=*/chance(4));
      if (chance(2)) damage(step);
    }
    const auto keep = static_cast<int64_t>(1 + random() % 4);
    std::optional<int64_t> valid;
    try {
      valid = newest();
    } catch (const Error&) {
      // All are damaged.
    }
    // A resume makes room before it goes on.
    if (valid) remove_old_checkpoints(run, snapshot(*valid).state, {.keep = keep});
    if (valid) {
      ASSERT_EQ(newest(), valid) << "round " << round;
    }
    const int64_t next = valid.value_or(0) + 1 + static_cast<int64_t>(random() % 3);
    write(run, next, keep);
    ASSERT_NO_THROW(verify_checkpoint(run, next, /*skip_training_state=*/false));
    ASSERT_GE(newest(), next) << "round " << round;
  }
}

TEST_F(CheckpointTest, ASaveThatDoesNotFitIsToldBeforeAByteIsWritten) {
  CheckpointSnapshot snapshot = this->snapshot(5);
  // More than any disk has: a tensor that claims its size without having it.
  snapshot.masters = {{0, at::empty({1}).expand({int64_t{1} << 50})}};
  const std::string message = error_of(ErrorKind::kIo, [&] {
    write_checkpoint(run, texts, model.parameters.layout(), snapshot, {.keep = 1});
  });
  EXPECT_NE(message.find("a checkpoint needs 4096.0 TiB"), std::string::npos) << message;
  EXPECT_NE(message.find("free some space"), std::string::npos) << message;
  EXPECT_TRUE(fs::is_empty(run.checkpoints()));
}

TEST_F(CheckpointTest, ADamagedOneIsPassedOver) {
  EXPECT_EQ(newest(), std::nullopt);
  write(run, 5);
  write(run, 10);
  EXPECT_EQ(newest(), 10);
  damage(10);
  EXPECT_EQ(newest(), 5);
  damage(5);
  const std::string message = error_of(ErrorKind::kCheckpoint, [&] { newest(); });
  EXPECT_NE(message.find("every checkpoint in"), std::string::npos) << message;
  EXPECT_NE(message.find("model.safetensors"), std::string::npos) << message;
}

TEST_F(CheckpointTest, ARenamedOneSaysItsName) {
  write(run, 5);
  fs::rename(run.checkpoint(5), run.checkpoint(6));
  const std::string message =
      error_of(ErrorKind::kCheckpoint, [&] { verify_checkpoint(run, 6, false); });
  EXPECT_NE(message.find("its name is step_00000005"), std::string::npos) << message;
}

TEST_F(CheckpointTest, AnotherRunsIsRefused) {
  const RunFolder other(folder / "other", RunIdentity{.id = "other run"});
  fs::create_directories(other.checkpoints());
  write(other, 5);
  fs::copy(other.checkpoint(5), run.checkpoint(5));
  const std::string message = error_of(ErrorKind::kCheckpoint, [&] { newest(); });
  EXPECT_NE(message.find("other run"), std::string::npos) << message;
  EXPECT_NE(message.find("this run"), std::string::npos) << message;
  require_own_checkpoint(RunFolder(run.path()), 5);
}

TEST_F(CheckpointTest, OfAnotherOptimizerIsRefused) {
  write(run, 5);
  OptimizerConfig config;
  config.type = OptimizerType::kAdEMAMix;
  config.betas = {0.9, 0.999, 0.9999};
  const std::unique_ptr<Optimizer> other = make_optimizer(config, model.parameters);
  const ReadBuffer read = optimizer_reader(run.checkpoint(5));
  EXPECT_THROW(
      {
        for (const OptimizerBuffer& buffer : other->buffers()) read(buffer);
      },
      Error);
}

TEST_F(CheckpointTest, AFolderIsOneByItsFiles) {
  write(run, 5);
  EXPECT_TRUE(is_checkpoint_folder(run.checkpoint(5)));
  EXPECT_FALSE(is_checkpoint_folder(run.checkpoints()));
  fs::create_directory(folder / "hf");
  testing::replace_file(folder / "hf/model.safetensors", "");
  EXPECT_FALSE(is_checkpoint_folder(folder / "hf"));
}

}  // namespace
}  // namespace lmtrain
