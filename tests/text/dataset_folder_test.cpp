#include "text/dataset_folder.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "prepare/folder.h"
#include "text/arrow_files.h"
#include "text/sources.h"

namespace lmtrain {
namespace {

using Names = std::vector<std::string>;
using Json = nlohmann::json;

class DatasetFolder : public ::testing::Test {
 protected:
  // A Dataset as save_to_disk of datasets 5.2 leaves it, with a file a map() has cached.
  void save_dataset(const std::string& name, int num_files = 1) const {
    Json files = Json::array();
    for (int i = 0; i < num_files; ++i) {
      const std::string file =
          "data-0000" + std::to_string(i) + "-of-0000" + std::to_string(num_files) + ".arrow";
      folder_.write(name + "/" + file,
                    testing::arrow_stream_bytes(*testing::table_of({name + std::to_string(i)})));
      files.push_back({{"filename", file}});
    }
    folder_.write(
        name + "/state.json",
        Json{{"_data_files", files}, {"_fingerprint", "00"}, {"_split", nullptr}}.dump(2));
    folder_.write(name + "/dataset_info.json", R"({"features": {}})");
  }
  void save_dict(const std::string& name, const Names& splits) const {
    for (const std::string& split : splits) save_dataset(name + "/" + split);
    folder_.write(name + "/dataset_dict.json", Json{{"splits", splits}}.dump());
  }
  void write(const Names& names) const {
    for (const std::string& name : names) folder_.write(name, "{\"text\": \"a\"}\n");
  }

  // The files taken, below the folder.
  Names list(const std::string& path, Role role = Role::kTrain,
             DataFormat format = DataFormat::kAuto) const {
    Names names;
    for (const SourceFile& file :
         list_source_files({{folder_.str(path), 1.0}}, "/data/train", format, role))
      names.push_back(file.path.lexically_relative(folder_.path()).string());
    return names;
  }
  std::string problem(ErrorKind kind, const std::string& path, Role role = Role::kTrain) const {
    return error_of(kind, [&] { list(path, role); });
  }
  std::string notes(const std::string& path, Role role = Role::kTrain) const {
    ::testing::internal::CaptureStderr();
    list(path, role);
    return ::testing::internal::GetCapturedStderr();
  }

  Folder folder_;
};

TEST_F(DatasetFolder, OfADatasetTheFilesOfItsStateAlone) {
  save_dataset("set", 2);
  folder_.write("set/cache-26a69eabd2ae095b.arrow", "cached");
  folder_.write("other.txt", "text");
  const Names files = {"set/data-00000-of-00002.arrow", "set/data-00001-of-00002.arrow"};
  EXPECT_EQ(list("set"), files);
  EXPECT_EQ(list("set/"), files);
  EXPECT_EQ(list("set/*"), files);
  EXPECT_EQ(list("set/*.arrow"), files);
  EXPECT_EQ(list("set", Role::kHeldOut), files);
  EXPECT_EQ(list("set", Role::kTrain, DataFormat::kArrow), files);
  EXPECT_EQ(list("**"), Names({"other.txt", files[0], files[1]}));
  EXPECT_EQ(list("set", Role::kTrain, DataFormat::kText).size(), 5U)
      << "all of it, when it is said";
  EXPECT_EQ(list("set/dataset_info.json"), Names({"set/dataset_info.json"}));
  expect_contains(problem(ErrorKind::kUsage, "set/cache-*"), "cache of one");
  expect_contains(notes("set"), "1 Arrow file left out");
}

TEST_F(DatasetFolder, OfACacheNotItsResults) {
  write({"x/dataset_info.json", "x/imdb-train.arrow", "x/imdb-test.arrow", "x/cache-00ff.arrow"});
  EXPECT_EQ(list("x"), Names({"x/imdb-train.arrow"}));
  expect_contains(notes("x"), "1 cached result left out");
}

TEST_F(DatasetFolder, AStateThatIsDamagedOrASelection) {
  save_dataset("set");
  folder_.write("set/state.json", R"({"_data_files": [{"filename": "gone.arrow"}]})");
  expect_contains(problem(ErrorKind::kData, "set"), "gone.arrow: missing");
  folder_.write("set/state.json", R"({"_data_files": [{"filename": "../a.arrow"}]})");
  expect_contains(problem(ErrorKind::kData, "set"), "leads out");
  folder_.write("set/state.json", R"({"_data_files": [)");
  expect_contains(problem(ErrorKind::kData, "set"), "state.json");
  folder_.write("set/state.json", "{}");
  expect_contains(problem(ErrorKind::kData, "set"), "_data_files");
  folder_.write("set/state.json",
                R"({"_data_files": [{"filename": "data-00000-of-00001.arrow"}],
                    "_indices_data_files": [{"filename": "indices.arrow"}]})");
  expect_contains(problem(ErrorKind::kConfig, "set"), "flatten_indices()");
}

TEST_F(DatasetFolder, OfADictTheSplitOfTheRole) {
  save_dict("dict", {"test", "train", "validation"});
  const auto file_of = [](const std::string& split) {
    return Names({"dict/" + split + "/data-00000-of-00001.arrow"});
  };
  EXPECT_EQ(list("dict"), file_of("train"));
  EXPECT_EQ(list("dict", Role::kHeldOut), file_of("validation"));
  EXPECT_EQ(list("dict/test"), file_of("test")) << "a split that is named";
  EXPECT_EQ(list("dict/test/*"), file_of("test"));
  EXPECT_EQ(list("dict/*/*.arrow").size(), 3U);
  EXPECT_EQ(list(""), file_of("train")) << "in the folder above";
  expect_contains(notes("dict"), "train is taken and the others are not trained on");
  expect_contains(notes("dict/*/*.arrow"), "warning");
  expect_contains(notes("dict/*/*.arrow"), "together");
}

TEST_F(DatasetFolder, ADictWithoutTheSplitIsRefusedWithTheSplitsThereAre) {
  save_dict("dict", {"wiki", "books"});
  expect_contains(problem(ErrorKind::kUsage, "dict"), "splits wiki, books and none named train");
  expect_contains(problem(ErrorKind::kUsage, "dict"), "dict/wiki\"");
  save_dict("only", {"train"});
  EXPECT_EQ(list("only").size(), 1U);
  expect_contains(problem(ErrorKind::kUsage, "only", Role::kHeldOut), "none for evaluation");
  folder_.write("only/dataset_dict.json", R"({"splits": ["train", "test"]})");
  expect_contains(problem(ErrorKind::kUsage, "dict", Role::kHeldOut), "none for evaluation");
  folder_.write("only/dataset_dict.json", R"({"splits": 3})");
  expect_contains(problem(ErrorKind::kData, "only"), "no list \"splits\"");
}

TEST_F(DatasetFolder, ASnapshotOfTheHub) {
  write({"hub/README.md", "hub/dataset_infos.json", "hub/.gitattributes",
         "hub/data/train-00000-of-00002.parquet", "hub/data/train-00001-of-00002.parquet",
         "hub/data/test-00000-of-00001.parquet", "hub/data/unsupervised-00000-of-00001.parquet"});
  EXPECT_EQ(list("hub"), Names({"hub/data/train-00000-of-00002.parquet",
                                "hub/data/train-00001-of-00002.parquet"}));
  EXPECT_EQ(list("hub", Role::kHeldOut), Names({"hub/data/test-00000-of-00001.parquet"}));
  EXPECT_EQ(list("hub/data/test*"), Names({"hub/data/test-00000-of-00001.parquet"}));
  EXPECT_EQ(list("hub/**/*.parquet").size(), 4U);
  const std::string note = notes("hub");
  expect_contains(note, "left out: README.md, dataset_infos.json");
  expect_contains(note, "splits test (1 file), train (2 files), unsupervised (1 file); train is");
  expect_contains(notes("hub/**/*.parquet"), "warning");
}

TEST_F(DatasetFolder, SplitsByNameOfFileOrFolder) {
  write({"a/train.jsonl", "a/validation.jsonl", "a/test.jsonl", "a/more.jsonl"});
  EXPECT_EQ(list("a"), Names({"a/more.jsonl", "a/train.jsonl"}));
  EXPECT_EQ(list("a", Role::kHeldOut), Names({"a/validation.jsonl"}));
  write({"b/c4-train.00000-of-01024.json.gz", "b/c4-validation.00000-of-00008.json.gz"});
  EXPECT_EQ(list("b"), Names({"b/c4-train.00000-of-01024.json.gz"}));
  write({"c/wiki.train.tokens", "c/wiki.valid.tokens"});
  EXPECT_EQ(list("c", Role::kTrain, DataFormat::kLines), Names({"c/wiki.train.tokens"}));
  write({"d/train/x/1.txt", "d/test/x/2.txt"});
  EXPECT_EQ(list("d"), Names({"d/train/x/1.txt"}));
  write({"e/train.bin", "e/val.bin"});
  EXPECT_EQ(list("e", Role::kTrain, DataFormat::kTokens), Names({"e/train.bin"}));
  write({"f/test.jsonl", "f/dev.jsonl"});
  expect_contains(problem(ErrorKind::kUsage, "f"), "dev (1 file), test (1 file) and none named");
}

TEST_F(DatasetFolder, SourceCodeIsWhatItIs) {
  const Names code = {"code/LICENSE",        "code/README.md",      "code/package.json",
                      "code/src/test.py",    "code/src/test/run.c", "code/src/train.py",
                      "code/src/train/run.c"};
  write(code);
  EXPECT_EQ(list("code"), code);
  EXPECT_EQ(notes("code"), "");
  write({"few/train.jsonl", "few/latest.jsonl", "few/training-notes.jsonl"});
  EXPECT_EQ(list("few").size(), 3U) << "no other split";
  write({"parts/a-00000-of-00001.jsonl", "parts/b-00000-of-00001.jsonl"});
  EXPECT_EQ(list("parts").size(), 2U);
  EXPECT_EQ(notes("parts"), "");
}

// huggingface_hub's cache: the files of a revision are links to blobs.
TEST_F(DatasetFolder, OfTheHubsCacheTheSnapshotAlone) {
  write({"c/blobs/01", "c/blobs/02", "c/blobs/03", "c/blobs/0a.incomplete", "c/refs/main",
         "c/.no_exist/r1/x.py", "c/blobs/readme"});
  folder_.write("c/refs/main", "r1");
  const auto link = [&](const std::string& blob, const std::string& name) {
    const std::filesystem::path path = folder_ / ("c/snapshots/" + name);
    std::filesystem::create_directories(path.parent_path());
    std::filesystem::create_symlink(folder_ / ("c/blobs/" + blob), path);
  };
  link("01", "r1/data/a.jsonl");
  link("02", "r1/data/b.jsonl");
  link("03", "r1/c.txt");
  link("readme", "r1/README.md");
  link("readme", "r1/.gitattributes");
  const Names files = {"c/snapshots/r1/c.txt", "c/snapshots/r1/data/a.jsonl",
                       "c/snapshots/r1/data/b.jsonl"};
  for (const char* path : {"c", "", "c/snapshots", "c/snapshots/r1", "c/**", "**"})
    EXPECT_EQ(list(path), files) << path;
  EXPECT_EQ(list("c", Role::kTrain, DataFormat::kLines), files);
  expect_contains(notes("c"), "of the cache of the hub left out beside the snapshot r1");
  EXPECT_EQ(list("c/blobs/0?").size(), 3U) << "what a pattern names is meant";
  // Another revision.
  link("01", "r0/data/a.jsonl");
  write({"c/blobs/04"});
  link("04", "r0/data/b.jsonl");
  EXPECT_EQ(list("c"), files);
  expect_contains(notes("c"), "2 snapshots; that of refs/main is taken, r1");
  folder_.write("c/refs/main", "r7");
  expect_contains(problem(ErrorKind::kUsage, "c"), "name the folder of one below snapshots");
  EXPECT_EQ(list("c/snapshots/r0").size(), 2U);
}

TEST_F(DatasetFolder, UnfinishedFilesAndThoseOfToolsAreLeftOut) {
  write({"d/a.jsonl", "d/b.jsonl.incomplete", "d/b.jsonl.part", "d/c.jsonl.lock", "d/e.txt~",
         "d/f.tmp", "d/g.jsonl", "d/g.jsonl.aria2", "d/h.crdownload", "d/_SUCCESS", "d/_metadata",
         "d/x.jsonl.dvc", "d/CACHEDIR.TAG", "d/_temporary/0/part-0.jsonl", "d/.hidden",
         "d/sub/.b.txt.swp"});
  for (const DataFormat format : {DataFormat::kAuto, DataFormat::kText, DataFormat::kTokens}) {
    EXPECT_EQ(list("d", Role::kTrain, format), Names({"d/a.jsonl"}));
    EXPECT_EQ(list("d/**", Role::kTrain, format), Names({"d/a.jsonl"}));
  }
  expect_contains(notes("d"), "(not finished, or a tool's own)");
  expect_contains(notes("d"), "left out: ");
  EXPECT_EQ(list("d/*.tmp"), Names({"d/f.tmp"})) << "what a pattern spells is meant";
  EXPECT_EQ(list("d/f.tmp"), Names({"d/f.tmp"}));
}

TEST_F(DatasetFolder, RunsAndCachesOfLmtrainAreLeftOut) {
  write({"d/a.md", "d/runs/x/config.json", "d/runs/x/config_history/0001_step_00000000.json",
         "d/runs/x/metrics.jsonl", "d/runs/x/checkpoints/step_00000001/README.md",
         "d/f/ladder.json", "d/f/.lock", "d/f/notes.md", "d/cache/index/K.json",
         "d/cache/locks/index-K", "d/cache/shards/K/train.bin", "d/plain/config.json"});
  for (const DataFormat format : {DataFormat::kAuto, DataFormat::kText, DataFormat::kTokens}) {
    EXPECT_EQ(list("d", Role::kTrain, format), Names({"d/a.md", "d/plain/config.json"}));
    EXPECT_EQ(list("d/**/*.md", Role::kTrain, format), Names({"d/a.md"}));
  }
  expect_contains(notes("d"), "d/cache\" and 2 more (a run or a cache of lmtrain, no text)");
  EXPECT_EQ(list("d/runs/x").size(), 4U) << "an entry that is the run itself is meant";
  EXPECT_EQ(list("d/runs/*/metrics.jsonl"), Names({"d/runs/x/metrics.jsonl"})) << "spelled";
  expect_contains(problem(ErrorKind::kUsage, "d/runs"), "lmtrain's own");
}

}  // namespace
}  // namespace lmtrain
