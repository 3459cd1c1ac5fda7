#include "checkpoint/run_config.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/support.h"
#include "config/parse.h"

namespace lmtrain {
namespace {

namespace fs = std::filesystem;
using testing::error_of;
using testing::replace_file;

class RunConfigTest : public ::testing::Test {
 protected:
  RunConfigTest() : run_(folder_ / "run") { fs::create_directories(run_.path()); }

  Config config(const std::vector<std::string>& overrides = {}) const {
    return parse_config(R"({"name": "x", "data": {"train": ["/corpus"]}})", "x.json", overrides);
  }
  std::vector<std::string> history() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(run_.config_history()))
      names.push_back(entry.path().filename());
    std::sort(names.begin(), names.end());
    return names;
  }
  std::string text() const { return read_file(run_.config()); }
  void change(const std::string& from, const std::string& to) const {
    std::string changed = text();
    const size_t at = changed.find(from);
    ASSERT_NE(at, std::string::npos);
    replace_file(run_.config(), changed.replace(at, from.size(), to));
  }

 private:
  TemporaryFolder folder_;

 protected:
  RunFolder run_;
};

TEST_F(RunConfigTest, IsReadAsItWasWritten) {
  write_run_config(run_, config({"optimizer.lr=0.01"}), 0);
  const auto [read, sealed] = read_run_config(run_);
  EXPECT_TRUE(sealed);
  EXPECT_EQ(read, config({"optimizer.lr=0.01"}));
  EXPECT_EQ(read_run_config(run_, {"seed=5"}).seed, 5);
}

// A digit, damaged or edited, is never trained on.
TEST_F(RunConfigTest, AChangedDigitIsRefusedAndNamed) {
  write_run_config(run_, config({"optimizer.lr=0.001"}), 0);
  change("\"lr\": 0.001", "\"lr\": 0.003");
  const std::string message = error_of(ErrorKind::kCheckpoint, [&] { read_run_config(run_); });
  for (const std::string& part :
       {run_.config().string() + " is not as lmtrain wrote it",
        std::string("/optimizer/lr is 0.003, was 0.001"),
        "lmtrain resume " + run_.path().string() + " --set KEY=VALUE",
        "cp " + (run_.config_history() / "0001_step_00000000.json").string() + " " +
            run_.config().string()}) {
    EXPECT_NE(message.find(part), std::string::npos) << part << " is not in " << message;
  }
  // What the message says works.
  fs::copy_file(run_.config_history() / "0001_step_00000000.json", run_.config(),
                fs::copy_options::overwrite_existing);
  EXPECT_TRUE(read_run_config(run_).sealed);
}

TEST_F(RunConfigTest, WithoutAKeptConfigTheDigestStillTells) {
  write_run_config(run_, config(), 0);
  fs::remove_all(run_.config_history());
  change("\"seed\": 1337", "\"seed\": 1336");
  const std::string message = error_of(ErrorKind::kCheckpoint, [&] { read_run_config(run_); });
  EXPECT_EQ(message.find("cp "), std::string::npos) << message;
  EXPECT_NE(message.find("digest does not fit"), std::string::npos) << message;
}

TEST_F(RunConfigTest, WhatIsNoConfigIsDamage) {
  write_run_config(run_, config(), 0);
  for (const std::string& bytes : {std::string(), std::string("{"), text().substr(0, 300)}) {
    replace_file(run_.config(), bytes);
    const std::string message = error_of(ErrorKind::kCheckpoint, [&] { read_run_config(run_); });
    EXPECT_NE(message.find("config.json:"), std::string::npos) << message;
    EXPECT_NE(message.find("cp "), std::string::npos) << message;
  }
  fs::remove(run_.config());
  error_of(ErrorKind::kUsage, [&] { read_run_config(run_); });
}

TEST_F(RunConfigTest, EveryConfigIsKept) {
  write_run_config(run_, config(), 0);
  const std::string first = text();
  write_run_config(run_, config(), 0);  // no other
  write_run_config(run_, config({"optimizer.lr=0.01"}), 1000);
  write_run_config(run_, config({"optimizer.lr=0.02"}), 1000);
  EXPECT_EQ(history(),
            (std::vector<std::string>{"0001_step_00000000.json", "0002_step_00001000.json",
                                      "0003_step_00001000.json"}));
  EXPECT_EQ(read_file(run_.config_history() / "0001_step_00000000.json"), first);
  EXPECT_EQ(read_file(run_.config_history() / "0003_step_00001000.json"), text());
}

// Of an earlier lmtrain: no digest, nothing kept.
TEST_F(RunConfigTest, AnUnsealedOneIsReadAndKeptWhenItChanges) {
  const std::string old = config_to_json(config()).dump(2) + "\n";
  replace_file(run_.config(), old);
  EXPECT_FALSE(read_run_config(run_).sealed);
  EXPECT_EQ(read_run_config(run_).config, config());
  write_run_config(run_, config({"optimizer.lr=0.01"}), 500);
  EXPECT_EQ(read_file(run_.config_history() / "0001_step_00000000.json"), old);
  EXPECT_EQ(history().size(), 2U);
  EXPECT_TRUE(read_run_config(run_).sealed);
}

}  // namespace
}  // namespace lmtrain
