// What a user may point a command at, and which model that is.
#include "checkpoint/model_location.h"

#include "base/support.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/run_config.h"
#include "config/parse.h"
#include "formats/manifest.h"
#include "train/tiny_model.h"

namespace lmtrain {
namespace {

namespace fs = std::filesystem;
using testing::error_of;
using testing::replace_file;
using testing::TemporaryFolder;
using testing::TinyModel;

class ModelLocationTest : public ::testing::Test {
 protected:
  // Makes a run with checkpoints of these steps.
  RunFolder run_with(const std::vector<int64_t>& steps) {
    const RunFolder run(folder / "run", RunIdentity{.id = "this run"});
    fs::create_directories(run.checkpoints());
    write_run_config(run,
                     parse_config(R"({"name": "x", "data": {"train": ["/corpus"]}})", "x.json", {}),
                     /*step=*/0);
    CheckpointSnapshot snapshot;
    snapshot.masters = {{0, model.parameters.master()}};
    for (const int64_t step : steps) {
      snapshot.state.step = step;
      write_checkpoint(run, {R"({"model_type": "llama"})", "{}", {}}, model.parameters.layout(),
                       snapshot, {.keep = 9});
    }
    return run;
  }
  static void damage(const fs::path& file) {
    std::string bytes = read_file(file);
    bytes.back() = static_cast<char>(bytes.back() ^ 1);
    replace_file(file, bytes);
  }
  // Makes a folder that holds a config.json alone.
  fs::path hf_folder(const std::string& config) {
    fs::create_directories(folder / "hf");
    replace_file(folder / "hf/config.json", config);
    return folder / "hf";
  }
  int64_t max_length(const std::string& config) {
    return located_max_length(locate_model(hf_folder(config)));
  }

  TemporaryFolder folder;
  TinyModel model;
};

TEST_F(ModelLocationTest, ARunGivesItsNewestValidCheckpoint) {
  const RunFolder run = run_with({5, 10});
  const ModelLocation newest = locate_model(run.path());
  EXPECT_EQ(newest.folder, run.checkpoint(10));
  EXPECT_EQ(newest.run, run.path());
  damage(run.checkpoint(10) / "model.safetensors");
  EXPECT_EQ(locate_model(run.path()).folder, run.checkpoint(5));
  damage(run.checkpoint(5) / "model.safetensors");
  error_of(ErrorKind::kCheckpoint, [&] { locate_model(run.path()); });
}

// Who evaluates a model needs no state of its training.
TEST_F(ModelLocationTest, TheStateOfTrainingNeedNotBeWhole) {
  const RunFolder run = run_with({5});
  fs::remove(run.checkpoint(5) / "optimizer.safetensors");
  EXPECT_EQ(locate_model(run.path()).folder, run.checkpoint(5));
}

TEST_F(ModelLocationTest, ACheckpointKnowsItsRunUnlessItWasCopied) {
  const RunFolder run = run_with({5});
  const ModelLocation inside = locate_model(run.checkpoint(5));
  EXPECT_EQ(inside.folder, run.checkpoint(5));
  EXPECT_EQ(fs::canonical(inside.run.value()), fs::canonical(run.path()));
  const fs::path copy = folder / "elsewhere/of/copy";
  fs::create_directories(copy.parent_path());
  fs::copy(run.checkpoint(5), copy);
  const ModelLocation outside = locate_model(copy);
  EXPECT_FALSE(outside.run);
  damage(copy / "model.safetensors");
  error_of(ErrorKind::kCheckpoint, [&] { locate_model(copy); });
}

TEST_F(ModelLocationTest, WhatHoldsNoModelIsNamed) {
  const auto problem = [&](const fs::path& path) {
    return error_of(ErrorKind::kUsage, [&] { locate_model(path); });
  };
  EXPECT_NE(problem(folder / "none").find("none does not exist"), std::string::npos);
  replace_file(folder / "file", "text");
  EXPECT_NE(problem(folder / "file").find("file is not a folder"), std::string::npos);
  fs::create_directory(folder / "empty");
  EXPECT_NE(problem(folder / "empty").find("there is no config.json in it"), std::string::npos);
  EXPECT_NE(problem(run_with({}).path()).find("has no checkpoint yet"), std::string::npos);
}

// The process that trains keeps the newest checkpoints alone.
TEST_F(ModelLocationTest, OneThatIsRemovedMeanwhileIsLocatedAgain) {
  const RunFolder run = run_with({5, 10});
  std::vector<fs::path> seen;
  const int64_t found = with_located_model(run.path(), [&](const ModelLocation& location) {
    seen.push_back(location.folder);
    if (seen.size() == 1) {
      fs::remove_all(location.folder);
      throw std::runtime_error("a file is gone");
    }
    return read_state(location.folder).step;
  });
  EXPECT_EQ(found, 5);
  EXPECT_EQ(seen, (std::vector<fs::path>{run.checkpoint(10), run.checkpoint(5)}));
  // Another failure is the caller's.
  EXPECT_THROW(with_located_model(run.path(),
                                  [](const ModelLocation&) { throw std::runtime_error("other"); }),
               std::runtime_error);
}

TEST_F(ModelLocationTest, TheArchitectureIsThatOfItsConfig) {
  const ModelLocation location =
      locate_model(hf_folder(R"({"model_type": "llama", "hidden_size": 64, "intermediate_size": 96,
                    "num_hidden_layers": 3, "num_attention_heads": 4, "vocab_size": 100})"));
  EXPECT_FALSE(location.run);
  EXPECT_EQ(located_model_config(location).num_hidden_layers, 3);
  const ModelLocation other = locate_model(hf_folder(R"({"model_type": "gpt2"})"));
  EXPECT_NE(error_of(ErrorKind::kConfig, [&] { located_model_config(other); }).find("gpt2"),
            std::string::npos);
}

TEST_F(ModelLocationTest, TheLongestLengthIsItsOwnOrThatOfTransformers) {
  EXPECT_EQ(max_length(R"({"max_position_embeddings": 77})"), 77);
  EXPECT_EQ(max_length(R"({"model_type": "llama"})"), 2048);
  EXPECT_EQ(max_length(R"({"model_type": "qwen3"})"), 32768);
  EXPECT_EQ(max_length("no JSON"), 2048);  // its architecture is refused when it is read
  for (const char* wrong : {"0", "-1", "1.5", "\"long\"", "1073741825"}) {
    const std::string message = error_of(ErrorKind::kConfig, [&] {
      max_length(std::string(R"({"max_position_embeddings": )") + wrong + "}");
    });
    EXPECT_NE(message.find("/max_position_embeddings: "), std::string::npos) << message;
  }
}

}  // namespace
}  // namespace lmtrain
