// A tiny checkpoint, damaged in every way: verification must name the file, and never pass.
#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <string>

#include "base/error.h"
#include "base/file.h"
#include "base/support.h"
#include "formats/damage.h"
#include "formats/manifest.h"
#include "formats/safetensors_support.h"

namespace lmtrain {
namespace {

namespace fs = std::filesystem;
using testing::error_of;

class Checkpoint : public ::testing::Test {
 protected:
  Checkpoint() {
    std::mt19937_64 random(3);
    const testing::OwnedTensor tensor{DType::kF32, {40, 32}, testing::random_bytes(random, 5120)};
    testing::write_tensors(folder_ / "model.safetensors", {{"w", tensor}});
    testing::write_tensors(folder_ / kOptimizerFile, {{"w.exp_avg", tensor}, {"x", tensor}});
    write_file_atomic(folder_ / "config.json", "{\"hidden_size\":32}\n");
    write_file_atomic(folder_ / kStateFile, "{\"step\":1000,\"batch\":1002}\n");
    write_file_atomic(folder_ / "empty", "");
    manifest_ = {.step = 1000, .fingerprint = "f", .program = "lmtrain"};
    for (const char* name :
         {"model.safetensors", kOptimizerFile, "config.json", kStateFile, "empty"}) {
      const FileSum sum = sum_file(folder_ / name);
      manifest_.files[name] = {sum.size, sum.crc};
    }
    write_manifest(folder_.path(), manifest_);
  }

  void expect_refused(const std::string& file, const std::string& what) {
    const std::string message =
        error_of(ErrorKind::kCheckpoint, [&] { verify_checkpoint_files(folder_.path(), false); });
    EXPECT_NE(message.find((folder_ / file).string()), std::string::npos)
        << what << ": " << message;
  }

  testing::TemporaryFolder folder_;
  Manifest manifest_;
};

TEST_F(Checkpoint, WholeOnePasses) {
  EXPECT_EQ(verify_checkpoint_files(folder_.path(), false), manifest_);
  write_file_atomic(folder_ / "not_listed", "x");
  EXPECT_EQ(verify_checkpoint_files(folder_.path(), true), manifest_);
}

// Space at the end changes nothing that a manifest says.
bool says_the_same(const std::string& damaged, const std::string& whole) {
  const std::string content = whole.substr(0, whole.size() - 1);
  return damaged.starts_with(content) &&
         damaged.find_first_not_of(" \n", content.size()) == std::string::npos;
}

TEST_F(Checkpoint, AnyDamageToAnyFileIsFound) {
  for (const std::string name :
       {"model.safetensors", kOptimizerFile, "config.json", kStateFile, kManifestFile}) {
    const std::string whole = read_file(folder_ / name);
    testing::for_each_damage(whole, 128, [&](const std::string& bytes, const std::string& what) {
      if (name == kManifestFile && says_the_same(bytes, whole)) return;
      testing::replace_file(folder_ / name, bytes);
      expect_refused(name, what);
    });
    testing::replace_file(folder_ / name, whole);
  }
  EXPECT_EQ(verify_checkpoint_files(folder_.path(), false), manifest_);
}

TEST_F(Checkpoint, EveryBitOfTheManifestCounts) {
  const std::string whole = read_file(folder_ / kManifestFile);
  testing::for_each_damage(
      whole, whole.size(), [&](const std::string& bytes, const std::string& what) {
        SCOPED_TRACE(what);
        if (says_the_same(bytes, whole)) return;
        error_of(ErrorKind::kCheckpoint, [&] { parse_manifest(bytes, "manifest.json"); });
      });
}

TEST_F(Checkpoint, GrownEmptyFileIsFound) {
  append_file(folder_ / "empty", "x", false);
  expect_refused("empty", "grown");
}

TEST_F(Checkpoint, SwappedMissingAndReplacedFilesAreFound) {
  fs::rename(folder_ / "config.json", folder_ / "other");
  expect_refused("config.json", "missing");
  fs::create_directory(folder_ / "config.json");
  expect_refused("config.json", "a folder in its place");
  fs::remove(folder_ / "config.json");
  fs::rename(folder_ / kStateFile, folder_ / "config.json");
  fs::rename(folder_ / "other", folder_ / kStateFile);
  expect_refused("config.json", "swapped");
}

TEST_F(Checkpoint, MessageHasBothFigures) {
  append_file(folder_ / "config.json", "x", false);
  const std::string message =
      error_of(ErrorKind::kCheckpoint, [&] { verify_checkpoint_files(folder_.path(), false); });
  EXPECT_NE(message.find("has 20 bytes, the manifest says 19"), std::string::npos) << message;
}

TEST_F(Checkpoint, ManifestOfAnotherStepIsFound) {
  manifest_.files["model.safetensors"].crc32c ^= 1;
  write_manifest(folder_.path(), manifest_);
  expect_refused("model.safetensors", "another manifest");
}

TEST_F(Checkpoint, TrainingStateCanBeLeftOut) {
  fs::remove(folder_ / kOptimizerFile);
  write_file_atomic(folder_ / kStateFile, "damaged");
  EXPECT_EQ(verify_checkpoint_files(folder_.path(), true), manifest_);
  fs::remove(folder_ / "model.safetensors");
  error_of(ErrorKind::kCheckpoint, [&] { verify_checkpoint_files(folder_.path(), true); });
}

TEST_F(Checkpoint, UnfinishedAndMissingFolders) {
  fs::remove(folder_ / kManifestFile);
  const std::string message =
      error_of(ErrorKind::kCheckpoint, [&] { verify_checkpoint_files(folder_.path(), false); });
  EXPECT_NE(message.find("manifest.json"), std::string::npos) << message;
  error_of(ErrorKind::kUsage, [&] { verify_checkpoint_files(folder_ / "typo", false); });
  fs::create_directory(folder_ / kManifestFile);
  expect_refused(kManifestFile, "a folder in its place");
}

TEST_F(Checkpoint, EndlessManifestIsNotRead) {
  FileWriter writer(folder_ / kManifestFile);
  writer.write(std::string((16 << 20) + 1, ' '));
  writer.finish();
  expect_refused(kManifestFile, "too large");
}

}  // namespace
}  // namespace lmtrain
