// Data that change while a run reads them: the run ends with the name of the file, having saved
// what it has learnt of sound data, and goes on once the data are as they were.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <random>

#include "base/file.h"
#include "e2e/ranks.h"
#include "e2e/workspace.h"
#include "formats/token_bytes.h"

namespace lmtrain::testing {
namespace {

namespace fs = std::filesystem;

std::string random_ids(size_t count, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<int32_t> ids;
  ids.reserve(count);
  for (size_t i = 0; i < count; ++i) ids.push_back(3 + static_cast<int32_t>(random() % 380));
  return ids_as<uint16_t>(ids);
}

// A run on one token file, longer than any test, that saves nothing before its end.
class ChangedData : public ::testing::Test {
 protected:
  ChangedData()
      : ids_(random_ids(1'000'000, 1)),
        file_(workspace_.write("tokens.bin", ids_)),
        config_(workspace_.config(
            {{"data",
              {{"train", {file_}}, {"format", "tokens"}, {"eval", nullptr}, {"eval_fraction", 0}}},
             {"train", {{"steps", 1'000'000}}},
             {"checkpoint", {{"every", "1000000 steps"}}}})),
        run_(workspace_ / "run") {}

  // Changes the data once the run has made some steps; it must end with this code, and say so of
  // `name`.
  void expect_end(const std::function<void()>& change, int exit_code, const std::string& name) {
    LmtrainProcess process({"train", config_, "--run-dir", run_.path()});
    ASSERT_TRUE(process.wait_until([&] { return run_.has_metrics_line("{\"step\":20,"); }))
        << process.err();
    change();
    const ProcessResult result = process.wait(60);
    EXPECT_EQ(result.exit_code, exit_code) << result;
    EXPECT_NE(result.err.find("lmtrain: " + name), std::string::npos) << result;
    expect_saved(exit_code);
  }

  // The same under three processes, of which one finds it: all save together, although each has a
  // part of the optimizer's state alone.
  void expect_end_of_three(const std::function<void()>& change, int exit_code,
                           const std::string& name) {
    Ranks ranks(3, {"train", config_, "--run-dir", run_.path()});
    ASSERT_TRUE(ranks[0].wait_until([&] { return run_.has_metrics_line("{\"step\":20,"); }));
    change();
    for (const ProcessResult& result : ranks.wait()) {
      EXPECT_EQ(result.exit_code, exit_code) << result;
      EXPECT_NE(result.err.find(name), std::string::npos) << result;
      EXPECT_EQ(result.err.find("are lost"), std::string::npos) << result;
    }
    expect_saved(exit_code);
  }

  // The last good state is there.
  void expect_saved(int exit_code) {
    const Json status = run_.status();
    EXPECT_EQ(status.at("state"), "failed");
    EXPECT_EQ(status.at("exit_code"), exit_code);
    ASSERT_FALSE(run_.checkpoint_steps().empty());
    last_step_ = run_.checkpoint_steps().back();
    EXPECT_EQ(status.at("step"), last_step_);
    EXPECT_GE(last_step_, 20);
  }

  void expect_to_go_on() const {
    const int64_t steps = last_step_ + 3;
    const ProcessResult resumed =
        lmtrain({"resume", run_.path(), "--set", "train.steps=" + std::to_string(steps)});
    EXPECT_EQ(resumed.exit_code, 0) << resumed;
    EXPECT_EQ(run_.status().at("step"), steps);
  }

  Workspace workspace_;
  std::string ids_;
  std::string file_;
  std::string config_;
  RunDir run_;
  int64_t last_step_ = 0;
};

TEST_F(ChangedData, ATokenFileOverwrittenInPlace) {
  const auto time = fs::last_write_time(file_);
  expect_end([&] { overwrite_file(file_, 0, random_ids(1'000'000, 2)); }, 3, file_ + ": ");
  // Refused as long as it holds other tokens.
  EXPECT_EQ(lmtrain({"resume", run_.path()}).exit_code, 3);
  overwrite_file(file_, 0, ids_);
  fs::last_write_time(file_, time);
  expect_to_go_on();
}

// As rsync -t and cp -p do it.
TEST_F(ChangedData, ATokenFileOverwrittenWithItsTimeKept) {
  const auto time = fs::last_write_time(file_);
  expect_end(
      [&] {
        overwrite_file(file_, 0, random_ids(1'000'000, 2));
        fs::last_write_time(file_, time);
      },
      3, file_ + ": ");
  overwrite_file(file_, 0, ids_);
  fs::last_write_time(file_, time);
  expect_to_go_on();
}

TEST_F(ChangedData, ATokenFileCutShort) {
  const auto time = fs::last_write_time(file_);
  expect_end([&] { truncate_file(file_, 4096); }, 3, file_);
  overwrite_file(file_, 0, ids_);
  fs::last_write_time(file_, time);
  expect_to_go_on();
}

TEST_F(ChangedData, ATokenFileCutShortUnderThreeProcesses) {
  const auto time = fs::last_write_time(file_);
  expect_end_of_three([&] { truncate_file(file_, 4096); }, 3, file_);
  overwrite_file(file_, 0, ids_);
  fs::last_write_time(file_, time);
  expect_to_go_on();
}

// Held-out tokens that are cut short in mid-run: the next evaluation finds it.
class ChangedHeldOut : public ChangedData {
 protected:
  ChangedHeldOut()
      : held_out_(random_ids(20'000, 3)), held_out_file_(workspace_.write("eval.bin", held_out_)) {
    config_ = workspace_.config(
        {{"data", {{"train", {file_}}, {"format", "tokens"}, {"eval", {held_out_file_}}}},
         {"train", {{"steps", 1'000'000}}},
         {"eval", {{"every", "25 steps"}}},
         {"checkpoint", {{"every", "1000000 steps"}}}});
  }

  // The evaluation that failed is made when the run goes on.
  void expect_to_evaluate() {
    overwrite_file(held_out_file_, 0, held_out_);
    fs::last_write_time(held_out_file_, time_);
    expect_to_go_on();
    const std::vector<Json> metrics = run_.metrics();
    EXPECT_TRUE(std::any_of(metrics.begin(), metrics.end(),
                            [&](const Json& line) {
                              return line.at("step") == last_step_ && line.contains("eval_loss");
                            }))
        << "step " << last_step_;
  }

  std::string held_out_;
  std::string held_out_file_;
  fs::file_time_type time_ = fs::last_write_time(held_out_file_);
};

TEST_F(ChangedHeldOut, CutShort) {
  expect_end([&] { truncate_file(held_out_file_, 4096); }, 3, held_out_file_);
  expect_to_evaluate();
}

TEST_F(ChangedHeldOut, CutShortUnderThreeProcesses) {
  expect_end_of_three([&] { truncate_file(held_out_file_, 4096); }, 3, held_out_file_);
  expect_to_evaluate();
}

// The same on text, whose tokens lie in the cache.
class ChangedShard : public ChangedData {
 protected:
  ChangedShard() {
    std::string text;
    std::mt19937_64 random(4);
    while (text.size() < 2'000'000) text += "line " + std::to_string(random()) + " of a text\n";
    const std::string input = workspace_.write("input.txt", text);
    config_ = workspace_.config(
        {{"data",
          {{"train", {input}}, {"format", "lines"}, {"eval", nullptr}, {"eval_fraction", 0}}},
         {"train", {{"steps", 1'000'000}}},
         {"checkpoint", {{"every", "1000000 steps"}}}});
  }

  void expect_end_of_shard(const std::function<void(const std::string& shard)>& change) {
    std::string shard;
    const auto change_it = [&] {
      for (const auto& entry : fs::recursive_directory_iterator(workspace_ / "."))
        if (entry.path().filename() == "train.bin")
          shard = entry.path().lexically_normal().string();
      change(shard);
    };
    expect_end(change_it, 3, "");
    EXPECT_NE(run_.events("end").back().at("reason").get<std::string>().find(shard),
              std::string::npos);
    // The next start makes the shard anew.
    expect_to_go_on();
  }
};

TEST_F(ChangedShard, CutShort) {
  expect_end_of_shard([](const std::string& shard) { truncate_file(shard, 4096); });
}

// The index that says where documents begin is a third of it.
TEST_F(ChangedShard, OverwrittenInPlaceWithItsIndex) {
  expect_end_of_shard([](const std::string& shard) {
    const uint64_t size = fs::file_size(shard);
    overwrite_file(shard, size / 2, std::string(size - size / 2, '\x7F'));
  });
}

}  // namespace
}  // namespace lmtrain::testing
