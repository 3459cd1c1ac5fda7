#include "checkpoint/run_config.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/support.h"
#include "config/digest.h"
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
  const auto [read, identity] = read_run_config(run_);
  EXPECT_EQ(read, config({"optimizer.lr=0.01"}));
  EXPECT_EQ(identity, RunIdentity());
  EXPECT_EQ(read_run_config(run_, {"seed=5"}).seed, 5);
}

TEST_F(RunConfigTest, TheIdentityIsReadBack) {
  const RunIdentity identity{"0123", BranchPoint{"4567", "/runs/a", 12}, "89ab"};
  write_run_config(RunFolder(run_.path(), identity), config(), 0);
  EXPECT_EQ(read_run_config(run_).identity, identity);
}

// Each value of the file, changed or taken out by hand, is refused and named.
TEST_F(RunConfigTest, EveryChangedKeyIsNamed) {
  write_run_config(RunFolder(run_.path(), {.id = "0123", .branch_of = {}, .init_from = ""}),
                   config({"data.train=[{\"path\":\"/a\",\"weight\":2},\"/b\"]"}), 0);
  const auto whole = nlohmann::json::parse(text());
  const auto flat = whole.flatten();
  const std::string held = (run_.config_history() / "0001_step_00000000.json").string();
  const auto expect_refused = [&](const nlohmann::json& edited, const std::string& found) {
    replace_file(run_.config(), edited.dump());
    for (const bool with_overrides : {false, true}) {
      const std::string message = error_of(ErrorKind::kCheckpoint, [&] {
        with_overrides ? void(read_run_config(run_, {"seed=5"})) : void(read_run_config(run_));
      });
      for (const std::string& part :
           {found, std::string("--set KEY=VALUE"), std::string("--continue"), "cp " + held})
        EXPECT_NE(message.find(part), std::string::npos) << part << " is not in " << message;
    }
  };
  for (const auto& [key, value] : flat.items()) {
    const nlohmann::json::json_pointer place(key);
    nlohmann::json edited = whole;
    edited[place] = value.is_number() ? nlohmann::json(value.get<double>() + 1) : "other";
    const bool is_digest = key == "/digest";
    expect_refused(edited, is_digest
                               ? "/digest alone"
                               : key + " is " + edited[place].dump() + ", was " + value.dump());
  }
  for (const auto& [key, value] : whole.items()) {
    nlohmann::json edited = whole;
    edited.erase(key);
    const bool is_digest = key == "digest";
    expect_refused(edited, is_digest ? "/digest alone" : ", was ");
  }
  nlohmann::json edited = whole;
  edited["unknown"] = 1;
  expect_refused(edited, "/unknown is 1, was absent");
  // Several at once are all named.
  edited = whole;
  for (const char* key : {"seed", "name", "device", "threads", "precision", "compile", "init_from",
                          "deterministic", "run_dir", "batch"})
    edited[key] = "other";
  replace_file(run_.config(), edited.dump());
  const std::string message = error_of(ErrorKind::kCheckpoint, [&] { read_run_config(run_); });
  for (const char* key : {"/seed", "/name", "/device", "/threads", "/precision", "/compile",
                          "/init_from", "/deterministic", "/run_dir", "/batch"})
    EXPECT_NE(message.find(std::string(key) + " is \"other\""), std::string::npos) << message;
}

// Sealed, and none of this run's.
TEST_F(RunConfigTest, TheConfigOfAnotherRunIsRefused) {
  write_run_config(RunFolder(run_.path(), {.id = "aaaa", .branch_of = {}, .init_from = ""}),
                   config(), 0);
  const RunFolder other(run_.path() / "other", {.id = "bbbb", .branch_of = {}, .init_from = ""});
  fs::create_directories(other.path());
  write_run_config(other, config({"optimizer.lr=0.5"}), 0);
  fs::copy_file(other.config(), run_.config(), fs::copy_options::overwrite_existing);
  const std::string message = error_of(ErrorKind::kCheckpoint, [&] { read_run_config(run_); });
  EXPECT_NE(message.find("it is the config of the run bbbb, not of aaaa"), std::string::npos)
      << message;
  EXPECT_NE(message.find("/optimizer/lr is 0.5, was "), std::string::npos) << message;
}

// Killed between the kept config and config.json: the later one never came into force.
TEST_F(RunConfigTest, TheKeptConfigThatIsInForceIsNamed) {
  write_run_config(run_, config(), 0);
  const std::string in_force = text();
  write_run_config(run_, config({"optimizer.lr=0.5"}), 10);
  replace_file(run_.config(), in_force);
  change("\"seed\": 1337", "\"seed\": 1336");
  const std::string message = error_of(ErrorKind::kCheckpoint, [&] { read_run_config(run_); });
  EXPECT_NE(message.find("0001_step_00000000.json: /seed is 1336, was 1337. A"), std::string::npos)
      << message;
}

// A folder that holds a run and no config of one: a command that takes models would guess.
TEST_F(RunConfigTest, ARunWithoutItsConfigIsNamed) {
  require_config_of_run(run_);  // nothing is there
  write_run_config(run_, config(), 0);
  fs::remove(run_.config());
  require_config_of_run(run_);  // no event says that a run began
  replace_file(run_.events(), "{}\n");
  const auto problem = [&] {
    return error_of(ErrorKind::kCheckpoint, [&] { require_config_of_run(run_); });
  };
  EXPECT_NE(
      problem().find("is missing, though the folder holds a run; the file is put back by: cp"),
      std::string::npos);
  replace_file(run_.config(), R"({"model_type": "llama"})");
  EXPECT_NE(problem().find("config.json is that of a model, though"), std::string::npos);
  fs::remove_all(run_.config_history());
  require_config_of_run(run_);  // there is nothing to put back
}

// A value is written out recursively, to take its digest.
TEST_F(RunConfigTest, DeepNestingIsNoConfig) {
  write_run_config(run_, config(), 0);
  const std::string deep(1'000'000, '[');
  replace_file(run_.config(),
               "{\"digest\": \"x\", \"a\": " + deep + std::string(deep.size(), ']') + "}");
  const std::string message = error_of(ErrorKind::kCheckpoint, [&] { read_run_config(run_); });
  EXPECT_NE(message.find("nested deeper"), std::string::npos) << message;
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
  EXPECT_EQ(read_run_config(run_).config.optimizer.lr, 0.001);
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

TEST_F(RunConfigTest, AnUnsealedOneIsRefused) {
  replace_file(run_.config(), config_to_json(config()).dump(2) + "\n");
  const std::string message = error_of(ErrorKind::kCheckpoint, [&] { read_run_config(run_); });
  EXPECT_NE(message.find("its digest is gone"), std::string::npos) << message;
}

// Its digest is right, so it is not damaged.
TEST_F(RunConfigTest, ASettingThatWasRemovedIsOfAnotherVersion) {
  nlohmann::ordered_json json = config_to_json(config());
  json["products"] = "heuristic";  // its default then
  replace_file(run_.config(), sealed_text(json));
  EXPECT_EQ(read_run_config(run_).config, config());
  json["products"] = "chosen";
  replace_file(run_.config(), sealed_text(json));
  const std::string message = error_of(ErrorKind::kCheckpoint, [&] { read_run_config(run_); });
  EXPECT_NE(message.find("products was removed"), std::string::npos) << message;
  EXPECT_NE(message.find("another version of lmtrain wrote"), std::string::npos) << message;
}

}  // namespace
}  // namespace lmtrain
