// Random damage to the files of a run and of its cache, then `resume`: it ends with the bits of the
// undisturbed run, or it refuses before a step is trained and names the file.
//
// A sample is tried. LMTRAIN_DAMAGES=N tries N, LMTRAIN_DAMAGE_SEED chooses others
// (scripts/damage_sweep.sh).
#include <gtest/gtest.h>

#include <cstdlib>
#include <iostream>
#include <map>
#include <random>

#include "e2e/faults/damage.h"
#include "e2e/faults/scenarios.h"

namespace lmtrain::testing {
namespace {

namespace fs = std::filesystem;

uint64_t number_of(const char* variable, uint64_t otherwise) {
  const char* text = std::getenv(variable);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

// The checkpoints after the last step have the same files; the metrics may not.
std::string difference_of_results(const RunDir& run, const RunDir& expected) {
  const int64_t last = expected.checkpoint_steps().back();
  if (run.checkpoint_steps().empty() || run.checkpoint_steps().back() != last)
    return "the last step is missing";
  for (const char* file : {"model.safetensors", "optimizer.safetensors"}) {
    if (read_text(run.checkpoint(last) / file) != read_text(expected.checkpoint(last) / file))
      return std::string(file) + " differs";
  }
  return "";
}

class DamageSweep : public ::testing::Test {
 protected:
  FaultScenarios scenarios_;

  struct Counts {
    int damages = 0, same = 0, mended = 0, refused = 0;
  };

  void sweep(const Scenario& scenario, uint64_t count) {
    const uint64_t seed = number_of("LMTRAIN_DAMAGE_SEED", 1);
    std::mt19937_64 random(seed);
    const fs::path cache = scenarios_.cache();
    scenario.begin();
    const ProcessResult plain = scenarios_.server().run(scenario.command);
    ASSERT_EQ(plain.exit_code, 0) << plain;
    const RunDir expected = scenario.run->copy(kept_ / "expected");
    fs::copy(cache, kept_ / "cache", fs::copy_options::recursive);
    for (uint64_t i = 0; i < count && problems_ < kMostProblems; ++i) {
      scenario.begin();
      fs::remove_all(cache);
      fs::copy(kept_ / "cache", cache, fs::copy_options::recursive);
      const DamageDone damage = damage_a_file({scenario.run->folder(), cache}, random);
      if (!damage.changed) continue;
      const char* kind = kDamageNames[static_cast<size_t>(damage.kind)];
      counts_[kind].damages += 1;
      const ProcessResult result = scenarios_.server().run(scenario.command);
      const std::string problem = problem_of(result, scenario, expected, damage, counts_[kind]);
      if (problem.empty()) continue;
      ++problems_;
      ADD_FAILURE() << scenario.name << ", damage " << i << " of seed " << seed << ": " << kind
                    << ' ' << damage.file.string() << ' ' << damage.detail << ": " << problem
                    << '\n'
                    << result;
    }
    print(scenario);
    fs::remove_all(kept_ / "expected");
    fs::remove_all(kept_ / "cache");
  }

 private:
  std::string problem_of(const ProcessResult& result, const Scenario& scenario,
                         const RunDir& expected, const DamageDone& damage, Counts& counts) const {
    const bool is_named = names(result.err, damage.file) || names(result.err, damage.other);
    if (result.exit_code == 0) {
      ++(is_named ? counts.mended : counts.same);
      // A digit of the metrics may be another one, and nothing depends on it.
      const bool of_metrics =
          damage.file.filename() == "metrics.jsonl" || damage.other.filename() == "metrics.jsonl";
      return of_metrics ? difference_of_results(*scenario.run, expected)
                        : difference(*scenario.run, expected);
    }
    ++counts.refused;
    if (result.exit_code != 2 && result.exit_code != 3) return "another exit code";
    if (!is_named) return "the file is not named";
    const std::vector<int64_t> steps = scenario.run->checkpoint_steps();
    return !steps.empty() && steps.back() > kStoppedAt ? "steps were trained" : "";
  }

  static bool names(const std::string& text, const fs::path& file) {
    return !file.empty() && text.find(file.filename().string()) != std::string::npos;
  }

  void print(const Scenario& scenario) const {
    for (const auto& [kind, counts] : counts_) {
      std::cout << "damage of " << scenario.name << ": " << kind << " damages " << counts.damages
                << " same " << counts.same << " mended " << counts.mended << " refused "
                << counts.refused << std::endl;
    }
  }

  static constexpr int kMostProblems = 20;  // shown
  static constexpr int64_t kStoppedAt = 3;  // both scenarios

  int problems_ = 0;
  Workspace kept_;
  std::map<std::string, Counts> counts_;  // by kind of damage
};

TEST_F(DamageSweep, OfARun) {
  sweep(scenarios_.resume_with_checkpoints(), number_of("LMTRAIN_DAMAGES", 60));
}
TEST_F(DamageSweep, OfARunWithTrials) {
  sweep(scenarios_.resume_with_trials(), number_of("LMTRAIN_DAMAGES", 60));
}

}  // namespace
}  // namespace lmtrain::testing
