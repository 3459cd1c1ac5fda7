// Checkpoints with weights in bf16 (checkpoint.dtype): half the size for those who read the model,
// and the same run to the bit for a resume.
#include <gtest/gtest.h>

#include <csignal>

#include "e2e/references.h"
#include "e2e/tamper.h"
#include "formats/tensor_files.h"

namespace lmtrain::testing {
namespace {

namespace fs = std::filesystem;

const Reference& in_bf16() {
  return reference({{"checkpoint", {{"every", "3 steps"}, {"dtype", "bf16"}}}});
}

RunDir killed(const std::string& name) { return interrupted_run(in_bf16(), name, SIGKILL, 22, 2); }

Json eval(const fs::path& target) {
  const ProcessResult result =
      lmtrain({"eval", target.string(), "--data", "data/sample", "--json"});
  EXPECT_EQ(result.exit_code, 0) << result;
  return Json::parse(result.out);
}

TEST(CheckpointDType, AResumeAfterAKillIsBitExact) {
  const RunDir run = killed("killed");
  const ProcessResult resumed = resume(run);
  EXPECT_EQ(resumed.exit_code, 0) << resumed;
  EXPECT_EQ(difference(run, in_bf16().run), "");
}

// Only the files differ: the losses are those of the run that saves in fp32.
TEST(CheckpointDType, DecidesNoBitOfTheRun) {
  std::vector<Json> lines = in_bf16().run.metrics(), expected = reference().run.metrics();
  ASSERT_EQ(lines.size(), expected.size());
  for (size_t i = 0; i < lines.size(); ++i) {
    for (const char* key : {"loss", "grad_norm", "eval_loss"}) {
      EXPECT_EQ(lines[i].contains(key), expected[i].contains(key));
      if (lines[i].contains(key)) {
        EXPECT_EQ(lines[i][key], expected[i][key]) << key;
      }
    }
  }
}

TEST(CheckpointDType, TheWeightsAreThoseOfAnExportInBf16) {
  const fs::path wide = reference().run.newest_checkpoint();
  const fs::path half = in_bf16().run.newest_checkpoint();
  const fs::path exported = in_bf16().fresh("exported");
  const ProcessResult result = lmtrain(
      {"export", wide.string(), "--format", "hf", "--to", exported.string(), "--dtype", "bf16"});
  ASSERT_EQ(result.exit_code, 0) << result;
  EXPECT_EQ(read_text(half / "model.safetensors"), read_text(exported / "model.safetensors"));
  EXPECT_EQ(nlohmann::json::parse(read_text(half / "config.json")),
            nlohmann::json::parse(read_text(exported / "config.json")));
  EXPECT_EQ(Json::parse(read_text(half / "config.json"))["torch_dtype"], "bfloat16");
  // What is evaluated are the weights of the file.
  const double loss = eval(half)["loss"];
  EXPECT_EQ(loss, eval(exported)["loss"].get<double>());
  EXPECT_NE(loss, eval(wide)["loss"].get<double>());
  EXPECT_NEAR(loss, eval(wide)["loss"].get<double>(), 1e-2);
}

TEST(CheckpointDType, MayChangeOnResume) {
  const RunDir run = killed("changed");
  const ProcessResult resumed = lmtrain({"resume", run.path(), "--set", "checkpoint.dtype=fp32"});
  EXPECT_EQ(resumed.exit_code, 0) << resumed;
  for (const char* file : {"model.safetensors", "optimizer.safetensors", "config.json"}) {
    EXPECT_EQ(read_text(run.newest_checkpoint() / file),
              read_text(reference().run.newest_checkpoint() / file))
        << file;
  }
}

TEST(CheckpointDType, DamagedMastersAreNotLoaded) {
  const RunDir run = killed("damaged");
  const int64_t newest = run.checkpoint_steps().back();
  flip_bit(run.checkpoint(newest) / "optimizer.safetensors", -5);
  const ProcessResult resumed = resume(run);
  EXPECT_EQ(resumed.exit_code, 0) << resumed;
  EXPECT_NE(resumed.err.find("optimizer.safetensors"), std::string::npos) << resumed;
  EXPECT_EQ(difference(run, in_bf16().run), "");
}

}  // namespace
}  // namespace lmtrain::testing
