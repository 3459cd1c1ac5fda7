// SIGKILL at random moments: `resume` goes on from what is whole, and the run ends with the bits of
// one that was never killed.
#include <gtest/gtest.h>

#include <csignal>
#include <cstdlib>
#include <iostream>
#include <random>

#include "e2e/references.h"

namespace lmtrain::testing {
namespace {

// LMTRAIN_KILL_SEED repeats a failure; LMTRAIN_KILLS raises the number for a night.
uint64_t kill_seed() {
  static const uint64_t seed = [] {
    const char* chosen = std::getenv("LMTRAIN_KILL_SEED");
    return chosen != nullptr ? std::strtoull(chosen, nullptr, 10) : std::random_device()();
  }();
  return seed;
}

struct KillCase {
  std::string name;
  int kills = 0;
  Json changes;
};

std::vector<KillCase> kill_cases() {
  const auto batching = [](const char* name, const char* schedule) {
    return Json{{"sequence", {{"batching", name}, {"schedule", {{"type", schedule}}}}}};
  };
  Json mixture = batching("pack", "linear");
  mixture["data"] = {{"train",
                      {{{"path", "data/sample"}, {"weight", 0.5}},
                       {{"path", "data/sample.jsonl"}, {"weight", 2.0}}}}};
  Json sync = {{"checkpoint", {{"async", false}}}};
  Json held_out = {{"data", {{"eval", nullptr}, {"eval_fraction", 0.2}}},
                   {"precision", "auto"},
                   {"train", {{"steps", nullptr}, {"epochs", 1.2}}}};
  return {
      {"Bucket", 20, batching("bucket", "grow_p2")}, {"BucketSync", 8, sync},
      {"Concat", 5, batching("concat", "constant")}, {"Pad", 5, batching("pad", "natural")},
      {"PackBelowACapMixture", 5, mixture},          {"HeldOutAutoPrecisionEpochs", 5, held_out}};
}

std::ostream& operator<<(std::ostream& out, const KillCase& test) { return out << test.name; }

class Kill : public ::testing::TestWithParam<KillCase> {};

TEST_P(Kill, ThenResumeIsBitExact) {
  const KillCase& test = GetParam();
  const Reference& expected = reference(test.changes);
  const char* more = std::getenv("LMTRAIN_KILLS");
  const int wanted = more != nullptr ? std::atoi(more) : test.kills;
  std::cout << "LMTRAIN_KILL_SEED=" << kill_seed() << std::endl;
  std::mt19937_64 random(kill_seed());
  const auto uniform = [&](double low, double high) {
    return std::uniform_real_distribution<double>(low, high)(random);
  };
  const double run_ms = 1000 * expected.run.metrics().back().value("elapsed", 0.2) + 300;

  int in_save = 0;
  int kills = 0;
  while (kills < wanted) {
    const RunDir run(expected.fresh(test.name));
    for (bool finished = false; !finished;) {
      LmtrainProcess process({"train", expected.config, "--run-dir", run.path(), "--continue"});
      if (kills < wanted) {
        // Mostly once the steps run, where nearly all the time goes into saves; else at any time.
        if (uniform(0, 1) < 0.8) {
          const size_t before = read_text(run.folder() / "events.jsonl").size();
          process.wait_until(
              [&] { return read_text(run.folder() / "events.jsonl").size() > before; });
          sleep_ms(uniform(0, run_ms / 3));
        } else {
          sleep_ms(uniform(0, 2 * run_ms));
        }
        if (process.running()) ++kills;
        process.send(SIGKILL);
      }
      const ProcessResult result = process.wait();
      finished = result.signal == 0;
      if (finished) {
        ASSERT_EQ(result.exit_code, 0) << result;
      }
      in_save += static_cast<int>(run.has_unfinished_checkpoint());
    }
    EXPECT_FALSE(run.has_unfinished_checkpoint());
    EXPECT_EQ(run.status().at("state"), "done");
    EXPECT_EQ(difference(run, expected.run), "") << "seed " << kill_seed();
  }
  std::cout << test.name << ": " << kills << " kills, " << in_save << " of them in a save"
            << std::endl;
}

INSTANTIATE_TEST_SUITE_P(Batching, Kill, ::testing::ValuesIn(kill_cases()),
                         [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace lmtrain::testing
