// average: the mean of several models, read again by every command that reads one.
#include <gtest/gtest.h>

#include <cstring>

#include "base/examine.h"
#include "e2e/references.h"
#include "e2e/tamper.h"
#include "formats/tensor_files.h"

namespace lmtrain::testing {
namespace {

namespace fs = std::filesystem;
using Arguments = std::vector<std::string>;

ProcessResult average(const std::vector<fs::path>& targets, const fs::path& to) {
  Arguments command = {"average"};
  for (const fs::path& target : targets) command.push_back(target.string());
  command.insert(command.end(), {"--to", to.string()});
  return lmtrain(command);
}

std::map<std::string, std::vector<float>> weights(const fs::path& folder) {
  std::map<std::string, std::vector<float>> all;
  const TensorFiles files(folder);
  for (const auto& [name, view] : files.tensors()) {
    EXPECT_EQ(view.dtype, DType::kF32) << name;
    std::vector<float>& values = all[name];
    values.resize(view.bytes.size() / sizeof(float));
    std::memcpy(values.data(), view.bytes.data(), view.bytes.size());
  }
  return all;
}

// The reference run's last three checkpoints, oldest first.
std::vector<fs::path> checkpoints() {
  const RunDir& run = reference().run;
  std::vector<fs::path> folders;
  for (const int64_t step : run.checkpoint_steps()) folders.push_back(run.checkpoint(step));
  EXPECT_GE(folders.size(), 3U);
  return {folders.end() - 3, folders.end()};
}

TEST(Average, EachWeightIsTheMeanInDoubleRoundedOnce) {
  const Workspace workspace;
  const fs::path out = workspace / "new/mean";
  const ProcessResult result = average(checkpoints(), out);
  EXPECT_EQ(result.exit_code, 0) << result;
  EXPECT_EQ(result.err, "");
  EXPECT_NE(result.out.find("of 3 models"), std::string::npos) << result;
  const auto a = weights(checkpoints()[0]);
  const auto b = weights(checkpoints()[1]);
  const auto c = weights(checkpoints()[2]);
  EXPECT_NE(a, c);
  const auto mean = weights(out);
  ASSERT_EQ(mean.size(), a.size());
  for (const auto& [name, values] : mean) {
    ASSERT_EQ(values.size(), a.at(name).size()) << name;
    for (size_t i = 0; i < values.size(); ++i) {
      const double sum = double{a.at(name)[i]} + double{b.at(name)[i]} + double{c.at(name)[i]};
      ASSERT_EQ(values[i], static_cast<float>(sum / 3)) << name << " " << i;
    }
  }
}

TEST(Average, TheFolderIsReadByEveryCommand) {
  const Workspace workspace;
  const fs::path out = workspace / "mean";
  // A run stands for its newest checkpoint.
  ASSERT_EQ(average({checkpoints()[0], reference().run.folder()}, out).exit_code, 0);
  EXPECT_EQ(list_folder(out),
            (Arguments{"config.json", "generation_config.json", "model.safetensors",
                       "tokenizer.model", "tokenizer_config.json"}));
  const fs::path again = workspace / "again";
  ASSERT_EQ(average({checkpoints()[0], checkpoints()[2]}, again).exit_code, 0);
  EXPECT_EQ(contents(again), contents(out));

  const ProcessResult loss = lmtrain({"eval", out.string(), "--data", "data/sample", "--json"});
  EXPECT_EQ(loss.exit_code, 0) << loss;
  EXPECT_EQ(lmtrain({"generate", out.string(), "--prompt", "a", "--max-tokens", "3"}).exit_code, 0);
  const ProcessResult trained = lmtrain({"train",
                                         workspace.config({{"init_from", out.string()},
                                                           {"model", nullptr},
                                                           {"tokenizer", nullptr},
                                                           {"train", {{"steps", 2}}}}),
                                         "--run-dir", (workspace / "run").string()});
  EXPECT_EQ(trained.exit_code, 0) << trained;
}

TEST(Average, RefusesWhatHasNoMeanAndLeavesNothing) {
  const Workspace workspace;
  workspace.write("full/file", "mine");
  const fs::path first = checkpoints()[0];
  const fs::path damaged = workspace / "damaged";
  fs::copy(first, damaged);
  flip_bit(damaged / "model.safetensors", 1000);
  // The weights of the first model beside the tokenizer of another.
  const fs::path other = workspace / "other_tokenizer";
  ASSERT_EQ(lmtrain({"export", first.string(), "--format", "hf", "--to", other.string()}).exit_code,
            0);
  const Workspace elsewhere;
  fs::copy_file(other_tokenizer(elsewhere), other / "tokenizer.model",
                fs::copy_options::overwrite_existing);
  const fs::path deeper = workspace / "deeper";
  fs::copy(other, deeper);
  nlohmann::json config = nlohmann::json::parse(read_text(deeper / "config.json"));
  config["num_hidden_layers"] = 7;
  workspace.write("deeper/config.json", config.dump());

  struct Refusal {
    std::vector<fs::path> targets;
    fs::path to;
    int exit_code;
    std::string part;
  };
  for (const Refusal& refusal : std::vector<Refusal>{
           {{first}, workspace / "out", 2, "two models or more"},
           {{first, checkpoints()[1], first}, workspace / "out", 2, "is given twice"},
           {{first, workspace / "none"}, workspace / "out", 2, "does not exist"},
           {{first, damaged}, workspace / "out", 3, "model.safetensors"},
           {{first, deeper}, workspace / "out", 2, "num_hidden_layers is 2 and 7"},
           {{first, other}, workspace / "out", 2, "not of one tokenizer"},
           {{first, checkpoints()[1]}, workspace / "full", 2, "is a folder that is not empty"}}) {
    const ProcessResult result = average(refusal.targets, refusal.to);
    EXPECT_EQ(result.exit_code, refusal.exit_code) << result;
    EXPECT_NE(result.err.find(refusal.part), std::string::npos) << result;
    EXPECT_FALSE(is_there(workspace / "out"));
  }
  EXPECT_EQ(list_folder(workspace / ""),
            (Arguments{"damaged", "deeper", "full", "other_tokenizer"}));
}

}  // namespace
}  // namespace lmtrain::testing
