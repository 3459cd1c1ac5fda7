#include "checkpoint/changed_settings.h"

#include "base/support.h"
#include "checkpoint/run_config.h"
#include "config/parse.h"

namespace lmtrain {
namespace {

namespace fs = std::filesystem;
using testing::error_of;
using testing::TemporaryFolder;
using Keys = std::vector<std::string>;

Config config_with(const std::vector<std::string>& overrides = {}) {
  return parse_config(R"({"name": "x", "data": {"train": ["/corpus"]}})", "x.json", overrides);
}

TEST(ChangedSettings, NameOldAndNewValues) {
  const std::vector<SettingChange> changes = changed_settings(
      config_with(),
      config_with({"train.steps=5", "optimizer.betas=[0.9,0.99]", "optimizer.momentum=0.5"}));
  ASSERT_EQ(changes.size(), 4U);
  EXPECT_EQ(changes_json(changes).dump(),
            R"([{"key":"optimizer.betas","was":[0.9,0.95],"is":[0.9,0.99]},)"
            R"({"key":"optimizer.momentum","was":0.95,"is":0.5},)"
            R"({"key":"train.steps","was":null,"is":5},)"
            R"({"key":"train.tokens","was":20000000,"is":null}])");
  EXPECT_EQ(changes[0].unused, "");
  EXPECT_EQ(changes[1].unused, "optimizer.type is adamw");
  EXPECT_TRUE(changed_settings(config_with(), config_with()).empty());
}

TEST(ChangedSettings, WhatTheWeightsRestOnIsChangedForGood) {
  const Config before = config_with();
  EXPECT_EQ(changed_for_good(before, before), Keys());
  Config after = before;
  after.seed = 2;
  after.data.text_field = "content";
  after.sequence.max_length *= 2;
  after.batch.tokens *= 2;
  after.restart.seeds = 3;
  EXPECT_EQ(changed_for_good(before, after),
            (Keys{"seed", "data", "sequence", "batch.tokens", "restart.seeds"}));
}

TEST(ChangedSettings, WhatOnlyTheNextStepsRestOnMayChange) {
  const Config before = config_with();
  Config after = config_with({"train.steps=5", "optimizer.lr=0.01", "clip.max=0.5"});
  after.data.cache_dir = "/elsewhere";
  after.name = "y";
  EXPECT_EQ(changed_for_good(before, after), Keys());
}

// The largest side that has a preconditioner says what SOAP's state is; no other rule knows it.
TEST(ChangedSettings, SidesWithAPreconditionerStay) {
  Config before = config_with();
  Config after = before;
  after.optimizer.max_precond_dim *= 2;
  EXPECT_EQ(changed_for_good(before, after), Keys());
  before = config_with({"optimizer.type=soap"});
  after = before;
  after.optimizer.max_precond_dim *= 2;
  EXPECT_EQ(changed_for_good(before, after), Keys{"optimizer.max_precond_dim"});
}

// NorMuon's second moments are state; no other rule has them, and what they are used for may
// change.
TEST(ChangedSettings, WhetherMuonHasSecondMomentsStays) {
  EXPECT_EQ(changed_for_good(config_with({"optimizer.type=muon"}),
                             config_with({"optimizer.type=muon", "optimizer.normuon=true"})),
            Keys{"optimizer.normuon"});
  EXPECT_EQ(changed_for_good(config_with(), config_with({"optimizer.normuon=true"})), Keys());
  const Keys muon = {"optimizer.type=muon", "optimizer.normuon=true"};
  Keys changed = muon;
  for (const char* change : {"optimizer.normuon_beta2=0.9", "optimizer.cautious_decay=true",
                             "optimizer.ns_coefficients=polar_express", "optimizer.ns_steps=4"})
    changed.emplace_back(change);
  EXPECT_EQ(changed_for_good(config_with(muon), config_with(changed)), Keys());
  EXPECT_EQ(changed_settings(config_with(muon), config_with(changed)).size(), 4U);
}

TEST(ChangedSettings, HowWeightsBeganStays) {
  EXPECT_EQ(changed_for_good(config_with(), config_with({"model.initializer=zero_outputs"})),
            Keys{"model"});
}

TEST(OverlookedSettings, AreThoseThatAPersonHasWrittenAndTheRunHasNot) {
  const Config run = config_with({"optimizer.lr=0.001", "threads=2"});
  EXPECT_TRUE(overlooked_settings(run, run).empty());
  // What was automatic when the run began is no difference.
  EXPECT_TRUE(overlooked_settings(run, config_with({"optimizer.lr=0.001", "name=b"})).empty());
  const std::vector<SettingChange> overlooked =
      overlooked_settings(run, config_with({"optimizer.lr=0.09", "threads=2", "seed=5"}));
  ASSERT_EQ(overlooked.size(), 2U);
  EXPECT_EQ(overlooked[0].key, "seed");
  EXPECT_EQ(overlooked[1].key, "optimizer.lr");
  EXPECT_EQ(overlooked[1].is, 0.09);
  // "cuda" was resolved when the run began, and init_from has served its purpose.
  Config on_gpu = run, again = run;
  on_gpu.device = "cuda:0";
  on_gpu.init_from = "/runs/a/checkpoints/step_00000010";
  again.device = "cuda";
  again.init_from = "/runs/a/checkpoints/step_00000020";
  EXPECT_TRUE(overlooked_settings(on_gpu, again).empty());
  again.device = "cuda:1";
  EXPECT_EQ(overlooked_settings(on_gpu, again).size(), 1U);
}

class ChangedConfigTest : public ::testing::Test {
 protected:
  ChangedConfigTest() : run_(folder_ / "run") { fs::create_directories(run_.path()); }

 private:
  TemporaryFolder folder_;

 protected:
  RunFolder run_;
};

TEST_F(ChangedConfigTest, TakesWhatMayChange) {
  write_run_config(run_, config_with(), 0);
  const Config before = read_run_config(run_).config;
  EXPECT_EQ(changed_config(run_, before, {"optimizer.lr=0.01"}).optimizer.lr, 0.01);
  const std::string message = error_of(ErrorKind::kConfig, [&] {
    changed_config(run_, before, {"seed=5", "batch.tokens=4096"});
  });
  EXPECT_EQ(message,
            "a run cannot change seed, batch.tokens on resume; start a new run, with init_from to "
            "keep the weights");
}

TEST_F(ChangedConfigTest, AdvisesInitFromOnlyWhereTheWeightsWouldFit) {
  write_run_config(run_, config_with(), 0);
  const Config before = read_run_config(run_).config;
  EXPECT_EQ(
      error_of(ErrorKind::kConfig, [&] { changed_config(run_, before, {"model.hidden_size=96"}); }),
      "a run cannot change model on resume; start a new run");
}

// Without the refusal the run would go on at the rate of another tool, 0.001.
TEST_F(ChangedConfigTest, LeavesNothingToTheRecipe) {
  write_run_config(run_, config_with({"optimizer.lr=0.02"}), 0);
  const Config before = read_run_config(run_).config;
  for (const char* override :
       {"optimizer.lr=auto", "optimizer.lr=null", "optimizer.weight_decay=auto"}) {
    const std::string message =
        error_of(ErrorKind::kConfig, [&] { changed_config(run_, before, {override}); });
    EXPECT_NE(message.find("is chosen when a run begins, and this run has begun; give a value"),
              std::string::npos)
        << override << ": " << message;
  }
}

// A job queue types the same command at each start.
TEST(OverridesToGoOn, LeaveOutWhatWasResolvedWhenTheRunBegan) {
  EXPECT_EQ(overrides_to_go_on({"train.time=8h", "model.size=3M", "optimizer.lr=auto",
                                "batch.tokens=\"auto\"", "optimizer.weight_decay=null",
                                "tokenizer.add_bos=auto", "model.vocab_size=null"}),
            Keys());
  const Keys others = {"threads=auto", "optimizer.lr=0.01", "train.max_time=null", "seed=3",
                       "train.tokens=1M"};
  EXPECT_EQ(overrides_to_go_on(others), others);
  EXPECT_EQ(overrides_to_go_on({R"(train={"time":"8h","max_time":"1h"})",
                                R"(optimizer={"lr":"auto","eps":1e-9})", R"(model={"size":"3M"})"}),
            (Keys{"train.max_time=\"1h\"", "optimizer.eps=1e-9"}));
}

// Without this an object of "train" would give the run the default length.
TEST_F(ChangedConfigTest, AnObjectChangesTheSettingsThatItNames) {
  write_run_config(run_, config_with({"train.steps=7", "optimizer.betas=[0.8,0.9]"}), 0);
  const Config before = read_run_config(run_).config;
  const Config after =
      changed_config(run_, before, {R"(train={"max_time":60})", R"(optimizer={"eps":1e-9})"});
  EXPECT_EQ(after.train.steps, 7);
  EXPECT_EQ(after.train.max_time, 60);
  EXPECT_EQ(after.optimizer.eps, 1e-9);
  EXPECT_EQ(after.optimizer.betas, before.optimizer.betas);
  EXPECT_EQ(changed_config(run_, before, {R"(train={"tokens":"1M"})"}).train.steps, std::nullopt);
  EXPECT_EQ(changed_config(run_, before, {"train={}"}).train, before.train);
}

TEST_F(ChangedConfigTest, TrialsStayAlikeUntilTheBestGoesOn) {
  Config before = config_with();
  before.restart.seeds = 2;
  Config faster = before;
  faster.optimizer.lr *= 2;
  refuse_unlike_trials(run_, before, faster);  // there is no trial yet
  fs::create_directories(run_.trials());
  const std::string message =
      error_of(ErrorKind::kConfig, [&] { refuse_unlike_trials(run_, before, faster); });
  EXPECT_NE(message.find("after a change of optimizer.lr; resume without it"), std::string::npos)
      << message;

  Config harmless = before;
  harmless.train.max_time = 60;
  harmless.optimizer.momentum = 0.5;  // AdamW has none
  harmless.checkpoint.keep += 1;
  refuse_unlike_trials(run_, before, harmless);
  before.restart.seeds = 1;  // no trials are compared
  refuse_unlike_trials(run_, before, faster);
  before.restart.seeds = 2;
  fs::create_directories(run_.checkpoint(10));  // the best goes on
  refuse_unlike_trials(run_, before, faster);
}

}  // namespace
}  // namespace lmtrain
