// What a user may point a command at, and which model that is.
#include "checkpoint/model_location.h"

#include "base/support.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/run_config.h"
#include "config/parse.h"
#include "formats/manifest.h"
#include "training/tiny_model.h"

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
  EXPECT_EQ(newest.step, 10);
  EXPECT_EQ(locate_model(run.checkpoint(5)).step, 5);
  EXPECT_EQ(locate_model(hf_folder("{\"model_type\": \"llama\"}")).step, std::nullopt);
  EXPECT_EQ(newest.run, run.path());
  damage(run.checkpoint(10) / "model.safetensors");
  EXPECT_EQ(locate_model(run.path()).folder, run.checkpoint(5));
  damage(run.checkpoint(5) / "model.safetensors");
  error_of(ErrorKind::kCheckpoint, [&] { locate_model(run.path()); });
}

class BestCheckpointTest : public ModelLocationTest {
 protected:
  // Makes a run with checkpoints of these steps and held-out losses; none: no evaluation there.
  RunFolder run_with_losses(const std::vector<std::pair<int64_t, std::optional<double>>>& saved) {
    const RunFolder run = run_with({});
    CheckpointSnapshot snapshot;
    snapshot.masters = {{0, model.parameters.master()}};
    for (const auto& [step, loss] : saved) {
      snapshot.state.step = step;
      if (loss) {
        snapshot.state.eval_step = step;
        snapshot.state.eval_loss = loss;
      }
      write_checkpoint(run, {R"({"model_type": "llama"})", "{}", {}}, model.parameters.layout(),
                       snapshot, {.keep = 9});
    }
    return run;
  }
  static int64_t step_of(const RunFolder& run, const ModelRequest& request = {}) {
    return read_state(locate_model(run.path(), request).folder).step;
  }
  // What is said while the checkpoint is chosen.
  static std::string said(const RunFolder& run, const ModelRequest& request) {
    ::testing::internal::CaptureStderr();
    locate_model(run.path(), request);
    return ::testing::internal::GetCapturedStderr();
  }
  static bool contains(const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
  }
};

TEST_F(BestCheckpointTest, ARunMeansItsBestAndSaysSo) {
  const RunFolder run = run_with_losses({{0, 9.0}, {5, 3.43}, {10, 3.43}, {15, {}}, {20, 4.52}});
  EXPECT_EQ(step_of(run), 5) << "the earlier one of two equal losses";
  EXPECT_EQ(step_of(run, {.command = "eval", .last = true}), 20);
  EXPECT_EQ(step_of(run, {.command = "eval", .step = 15}), 15);
  const std::string best = said(run, {.command = "eval"});
  EXPECT_TRUE(contains(best, "checkpoint step 5 of " + run.path().string() +
                                 ", the best (held-out loss 3.4300); --last takes the newest, step "
                                 "20 (4.5200), --step N"))
      << best;
  const std::string by_path = said(run, {});
  EXPECT_TRUE(contains(by_path, run.checkpoint(5).string() + "; the newest is " +
                                    run.checkpoint(20).string() + " (4.5200)"))
      << by_path;
  const std::string last = said(run, {.command = "eval", .last = true});
  EXPECT_TRUE(contains(last, "step 20 of ") && contains(last, "; the best is step 5 (3.4300)"))
      << last;
}

TEST_F(BestCheckpointTest, WithoutAnEvaluationItIsTheNewest) {
  EXPECT_EQ(step_of(run_with_losses({{5, {}}, {10, {}}})), 10);
  const std::string text = said(RunFolder(folder / "run"), {.command = "generate"});
  EXPECT_TRUE(contains(text, "step 10 of ") && contains(text, "the newest; no evaluation says"))
      << text;
}

// Random weights are not the best of a run that was stopped before its first evaluation.
TEST_F(BestCheckpointTest, Step0AloneIsComparedWithNothing) {
  EXPECT_EQ(step_of(run_with_losses({{0, 9.0}, {5, {}}})), 5);
}

TEST_F(BestCheckpointTest, Step0CanBeTheBest) {
  EXPECT_EQ(step_of(run_with_losses({{0, 3.0}, {5, 3.5}})), 0);
}

TEST_F(BestCheckpointTest, ADamagedBestIsNamedOnce) {
  const RunFolder run = run_with_losses({{5, {}}, {10, 3.0}});
  damage(run.checkpoint(10) / "model.safetensors");
  const std::string text = said(run, {});
  const size_t first = text.find("damaged checkpoint passed over");
  ASSERT_NE(first, std::string::npos) << text;
  EXPECT_EQ(text.find("damaged checkpoint passed over", first + 1), std::string::npos) << text;
}

TEST_F(ModelLocationTest, TheFolderOfCheckpointsLeadsToItsRun) {
  const RunFolder run = run_with({5, 10});
  for (const fs::path& path : {run.checkpoints(), run.checkpoints() / ""}) {
    const std::string message = error_of(ErrorKind::kUsage, [&] { locate_model(path); });
    for (const std::string& part : {std::string("is the folder of checkpoints of the run "),
                                    run.path().string() + ";", run.checkpoint(10).string()})
      EXPECT_NE(message.find(part), std::string::npos) << message;
  }
}

TEST_F(BestCheckpointTest, ADamagedBestIsNamedAndTheNextBestTaken) {
  const RunFolder run = run_with_losses({{0, 9.0}, {5, 3.0}, {10, 3.5}, {15, 4.0}});
  damage(run.checkpoint(5) / "model.safetensors");
  const std::string text = said(run, {.command = "eval"});
  EXPECT_TRUE(contains(text, "damaged checkpoint passed over: " + run.checkpoint(5).string()))
      << text;
  EXPECT_TRUE(contains(text, "step 10 of ")) << text;
  // A loss that cannot be trusted is none.
  damage(run.checkpoint(10) / "state.json");
  EXPECT_TRUE(contains(said(run, {}), "the held-out loss of " + run.checkpoint(10).string()));
  EXPECT_EQ(step_of(run), 15);
  error_of(ErrorKind::kCheckpoint, [&] { locate_model(run.path(), {.step = 5}); });
}

TEST_F(BestCheckpointTest, AChoiceIsOfARunAndOfWhatIsThere) {
  const RunFolder run = run_with_losses({{5, 3.0}, {10, 3.5}});
  const std::string missing =
      error_of(ErrorKind::kUsage, [&] { locate_model(run.path(), {.step = 7}); });
  EXPECT_TRUE(contains(missing, "no checkpoint of step 7; its checkpoints are of 5, 10"))
      << missing;
  const std::string alone =
      error_of(ErrorKind::kUsage, [&] { locate_model(run.checkpoint(5), {.last = true}); });
  EXPECT_TRUE(contains(alone, "--last chooses a checkpoint of a run folder")) << alone;
  error_of(ErrorKind::kUsage,
           [&] { locate_model(hf_folder(R"({"model_type": "llama"})"), {.step = 5}); });
}

TEST_F(ModelLocationTest, AFolderThatHoldsRunsNamesThem) {
  const RunFolder run = run_with({5});
  const std::string message =
      error_of(ErrorKind::kUsage, [&] { locate_model(folder.path(), {.command = "export"}); });
  EXPECT_NE(message.find("; 1 run in it: lmtrain export " + run.path().string()), std::string::npos)
      << message;
  replace_file(folder / "config.json", R"({"data": {"train": "corpus"}})");  // of the user
  EXPECT_EQ(error_of(ErrorKind::kUsage, [&] { locate_model(folder.path()); }),
            folder.path().string() +
                " holds no model: its config.json is not that of one; 1 run in "
                "it: " +
                run.path().string());
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

// Attention over whole rows is that of the model as far as the window reaches.
TEST_F(ModelLocationTest, TheLongestLengthOfAMistralIsWithinItsWindow) {
  EXPECT_EQ(max_length(R"({"model_type": "mistral"})"), 4096);
  const auto length = [&](const std::string& window) {
    return max_length(R"({"model_type": "mistral", "max_position_embeddings": 8192,
                          "sliding_window": )" +
                      window + "}");
  };
  EXPECT_EQ(length("512"), 512);
  EXPECT_EQ(length("16384"), 8192);
  EXPECT_EQ(length("null"), 8192);
}

TEST_F(ModelLocationTest, TheLongestLengthIsItsOwnOrThatOfTransformers) {
  EXPECT_EQ(max_length(R"({"max_position_embeddings": 77})"), 77);
  EXPECT_EQ(max_length(R"({"model_type": "llama"})"), 2048);
  EXPECT_EQ(max_length(R"({"model_type": "qwen3"})"), 32768);
  EXPECT_EQ(max_length(R"({"model_type": "qwen2", "sliding_window": 64})"), 32768);
  EXPECT_EQ(max_length(R"({"model_type": "mistral", "sliding_window": null})"), 131072);
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
