// Damaged and altered checkpoints: what is broken is named and passed over, and what resume should
// restore is really restored (negative controls: without it the result differs).
#include <gtest/gtest.h>

#include <cstdlib>

#include "base/file.h"
#include "e2e/references.h"
#include "e2e/tamper.h"
#include "formats/manifest.h"

namespace lmtrain::testing {
namespace {

namespace fs = std::filesystem;

TEST(Damage, NullTamperChangesNothing) {
  const RunDir run = copy_of_stopped_run("unchanged");
  rewrite_unchanged(run.newest_checkpoint());
  ASSERT_EQ(resume(run).exit_code, 0);
  EXPECT_EQ(difference(run, reference().run), "");
}

TEST(Damage, LostOptimizerStateShows) {
  for (const char* moment : {"exp_avg.", "exp_avg_sq."}) {
    const RunDir run = copy_of_stopped_run(std::string("lost ") + moment);
    zero_moments(run.newest_checkpoint(), moment);
    ASSERT_EQ(resume(run).exit_code, 0);
    EXPECT_NE(difference(run, reference().run), "") << moment;
  }
}

TEST(Damage, LostDataIndexShows) {
  const RunDir run = copy_of_stopped_run("lost batch");
  change_state(run.newest_checkpoint(), [](Json& state) { state["batch"] = 0; });
  ASSERT_EQ(resume(run).exit_code, 0);
  EXPECT_NE(difference(run, reference().run), "");
}

TEST(Damage, OtherSeedShows) {
  const RunDir run = copy_of_stopped_run("other seed");
  change_state(run.newest_checkpoint(),
               [](Json& state) { state["seed"] = state["seed"].get<int64_t>() + 1; });
  ASSERT_EQ(resume(run).exit_code, 0);
  // Not only where the seed is written.
  EXPECT_NE(read_text(run.newest_checkpoint() / "model.safetensors"),
            read_text(reference().run.newest_checkpoint() / "model.safetensors"));
}

struct DamageCase {
  std::string name;
  std::string file;  // that the warning must name
  std::function<void(const fs::path& checkpoint)> damage;
};

std::vector<DamageCase> damage_cases() {
  std::vector<DamageCase> cases;
  for (const char* file :
       {"model.safetensors", "optimizer.safetensors", "state.json", "config.json",
        "generation_config.json", "tokenizer.model", "tokenizer_config.json", "manifest.json"}) {
    cases.push_back({std::string("flip ") + file, file, [file](const fs::path& checkpoint) {
                       flip_bit(checkpoint / file,
                                static_cast<int64_t>(fs::file_size(checkpoint / file) / 2));
                     }});
  }
  const auto truncate = [&](const char* file, uint64_t lost) {
    cases.push_back({std::string("truncate ") + file + std::to_string(lost), file,
                     [file, lost](const fs::path& checkpoint) {
                       const uint64_t size = fs::file_size(checkpoint / file);
                       fs::resize_file(checkpoint / file, lost == 0 ? 0 : size - lost);
                     }});
  };
  truncate("model.safetensors", 0);
  truncate("model.safetensors", 1);
  truncate("optimizer.safetensors", 4096);
  truncate("manifest.json", 10);
  for (const char* file : {"manifest.json", "state.json", "optimizer.safetensors"}) {
    cases.push_back({std::string("delete ") + file, file,
                     [file](const fs::path& checkpoint) { fs::remove(checkpoint / file); }});
  }
  cases.push_back({"append to model", "model.safetensors", [](const fs::path& checkpoint) {
                     append_file(checkpoint / "model.safetensors", "x", /*sync=*/false);
                   }});
  cases.push_back({"manifest of another step", "manifest.json", [](const fs::path& checkpoint) {
                     fs::remove(checkpoint / "manifest.json");
                     fs::copy(stopped_run().checkpoint(stopped_run().checkpoint_steps().front()) /
                                  "manifest.json",
                              checkpoint / "manifest.json");
                   }});
  cases.push_back({"empty folder", "manifest.json", [](const fs::path& checkpoint) {
                     fs::remove_all(checkpoint);
                     fs::create_directory(checkpoint);
                   }});
  return cases;
}

TEST(Damage, IsNamedAndAnOlderCheckpointTaken) {
  for (const DamageCase& test : damage_cases()) {
    SCOPED_TRACE(test.name);
    const RunDir run = copy_of_stopped_run(test.name);
    const fs::path newest = run.newest_checkpoint();
    const int64_t older = run.checkpoint_steps().end()[-2];
    test.damage(newest);
    const ProcessResult resumed = resume(run);
    EXPECT_EQ(resumed.exit_code, 0) << resumed;
    // The first line that names it.
    const size_t about = resumed.err.find(newest.filename().string());
    ASSERT_NE(about, std::string::npos) << resumed;
    const size_t begin = resumed.err.rfind('\n', about) + 1;
    const std::string line = resumed.err.substr(begin, resumed.err.find('\n', begin) - begin);
    EXPECT_TRUE(line.starts_with("warning: ")) << line;
    // "manifest of another step" is found by the first file that does not fit.
    if (test.name != "manifest of another step") {
      EXPECT_NE(line.find(test.file), std::string::npos) << line;
    }
    EXPECT_NE(resumed.err.find("resuming after step " + std::to_string(older)), std::string::npos)
        << resumed;
    EXPECT_EQ(difference(run, reference().run), "");
    fs::remove_all(run.folder());
  }
}

TEST(Damage, SeveralDamagedGoBackFurther) {
  const RunDir run = copy_of_stopped_run("two damaged");
  const std::vector<int64_t> steps = run.checkpoint_steps();
  flip_bit(run.checkpoint(steps.end()[-1]) / "model.safetensors", -1);
  flip_bit(run.checkpoint(steps.end()[-2]) / "optimizer.safetensors", -1);
  const ProcessResult resumed = resume(run);
  EXPECT_EQ(resumed.exit_code, 0) << resumed;
  EXPECT_NE(resumed.err.find("resuming after step " + std::to_string(steps.end()[-3])),
            std::string::npos)
      << resumed;
  EXPECT_EQ(difference(run, reference().run), "");
}

TEST(Damage, NothingValidIsExit3AndChangesNothing) {
  const RunDir run = copy_of_stopped_run("all damaged");
  for (const int64_t step : run.checkpoint_steps()) {
    flip_bit(run.checkpoint(step) / "model.safetensors", -1);
  }
  const std::string metrics = read_text(run.folder() / "metrics.jsonl");
  const ProcessResult resumed = resume(run);
  EXPECT_EQ(resumed.exit_code, 3) << resumed;
  EXPECT_NE(resumed.err.find("every checkpoint"), std::string::npos) << resumed;
  EXPECT_EQ(read_text(run.folder() / "metrics.jsonl"), metrics);
}

TEST(Damage, AConfigThatIsGoneOrOfAModelIsExit3WithWhatPutsItBack) {
  for (const bool is_gone : {true, false}) {
    const RunDir run = copy_of_stopped_run("config");
    const fs::path config = run.folder() / "config.json";
    fs::remove(config);
    if (!is_gone) fs::copy(run.newest_checkpoint() / "config.json", config);
    const ProcessResult refused = resume(run);
    EXPECT_EQ(refused.exit_code, 3) << refused;
    EXPECT_NE(refused.err.find(config.string() + " is "), std::string::npos) << refused;
    const size_t cure = refused.err.find("cp ");
    ASSERT_NE(cure, std::string::npos) << refused;
    ASSERT_EQ(std::system(refused.err.substr(cure).c_str()), 0);
    ASSERT_EQ(resume(run).exit_code, 0);
    EXPECT_EQ(difference(run, reference().run), "");
  }
}

// A damaged checkpoint ahead of the resumed run must not count among those that are kept, or
// pruning would leave it alone.
TEST(Damage, PruningNeverLeavesOnlyDamagedCheckpoints) {
  const RunDir run = copy_of_stopped_run("prune");
  const int64_t valid = run.checkpoint_steps().front();
  for (const int64_t step : run.checkpoint_steps()) {
    if (step != valid) flip_bit(run.checkpoint(step) / "model.safetensors", -1);
  }
  // Kept: one. The run ends before a damaged step is reached.
  const int64_t last = valid + 1;
  const ProcessResult resumed = lmtrain({"resume", run.path(), "--set", "checkpoint.keep=1",
                                         "--set", "train.steps=" + std::to_string(last)});
  ASSERT_EQ(resumed.exit_code, 0) << resumed;
  EXPECT_TRUE(fs::exists(run.checkpoint(last))) << resumed;
  EXPECT_EQ(run.status().at("checkpoint"), run.checkpoint(last).string());
  const ProcessResult evaluated = lmtrain({"eval", run.path(), "--json"});
  EXPECT_EQ(evaluated.exit_code, 0) << evaluated;
}

// Whoever moves a checkpoint into an archive and leaves a link behind keeps it.
TEST(Damage, PruningRemovesALinkAndNotWhatItLeadsTo) {
  const RunDir run = copy_of_stopped_run("archived");
  const std::vector<int64_t> steps = run.checkpoint_steps();
  const fs::path archive = reference().fresh("archive");
  fs::rename(run.checkpoint(steps.front()), archive);
  fs::create_directory_symlink(archive, run.checkpoint(steps.front()));
  const fs::path leftover = run.folder() / "checkpoints/.tmp-step_00000017";
  fs::create_directory_symlink(archive, leftover);
  const ProcessResult resumed = resume(run);
  ASSERT_EQ(resumed.exit_code, 0) << resumed;
  EXPECT_FALSE(fs::is_symlink(run.checkpoint(steps.front())));
  EXPECT_FALSE(fs::is_symlink(leftover));
  EXPECT_NO_THROW(verify_checkpoint_files(archive, /*skip_training_state=*/false));
  EXPECT_EQ(difference(run, reference().run), "");
}

TEST(Damage, LeftoversAreRemovedOnResume) {
  const RunDir run = copy_of_stopped_run("leftovers");
  const fs::path leftover = run.folder() / "checkpoints/.tmp-step_00000017";
  fs::create_directories(leftover);
  replace_file(leftover / "model.safetensors", "half a file");
  ASSERT_EQ(resume(run).exit_code, 0);
  EXPECT_FALSE(fs::exists(leftover));
  EXPECT_EQ(difference(run, reference().run), "");
}

// A power cut may leave half a line in either file.
TEST(Damage, TornLinesAreNoTrouble) {
  const RunDir run = copy_of_stopped_run("torn");
  append_file(run.folder() / "metrics.jsonl", "{\"step\":17,\"tok", /*sync=*/false);
  append_file(run.folder() / "events.jsonl", "{\"time\":\"2026-1", /*sync=*/false);
  ASSERT_EQ(resume(run).exit_code, 0);
  EXPECT_EQ(difference(run, reference().run), "");
  // The torn event stays (the file only grows), on a line of its own.
  const std::string events = read_text(run.folder() / "events.jsonl");
  EXPECT_NE(events.find("{\"time\":\"2026-1\n{\"time\""), std::string::npos) << events;
}

}  // namespace
}  // namespace lmtrain::testing
