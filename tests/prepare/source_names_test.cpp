#include "prepare/source_names.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "config/parse.h"
#include "config/set_name.h"

namespace lmtrain {
namespace {

using Names = std::vector<std::string>;

Names names_of(const Names& paths) {
  std::vector<DataSourceConfig> sources;
  for (const std::string& path : paths) sources.push_back({path, 1.0});
  Names names = source_names(sources);
  for (const std::string& name : names) EXPECT_TRUE(is_set_name(name)) << name;
  return names;
}

TEST(SourceNames, AreTheLastPartWithoutAWildcard) {
  EXPECT_EQ(names_of({"corpus/python/**/*.py", "corpus/prose", "/data/web/", "wiki.jsonl.gz"}),
            Names({"python", "prose", "web", "wiki.jsonl.gz"}));
  EXPECT_EQ(names_of({"/**/*.py", "/*"}), Names({"py", "source"}));
}

TEST(SourceNames, TakeMorePartsWhereTheyWouldBeTheSame) {
  EXPECT_EQ(names_of({"c/**/*.py", "c/**/*.md", "wiki"}), Names({"c.py", "c.md", "wiki"}));
  EXPECT_EQ(names_of({"/d/en/text", "/d/de/text", "/d/de/code"}),
            Names({"en.text", "de.text", "code"}));
  EXPECT_EQ(names_of({"/a/x/t/*.txt", "/b/x/t/*.txt"}), Names({"a.x.t.txt", "b.x.t.txt"}));
}

TEST(SourceNames, AreDifferentWhateverThePaths) {
  EXPECT_EQ(names_of({"/d/a b", "/d/a+b"}), Names({"d.a_b-1", "d.a_b-2"}));
  EXPECT_EQ(names_of({"/d/*", "/d/**", "/d/?"}), Names({"d-1", "d-2", "d-3"}));
}

TEST(SourceNames, AreNoNamesOfLengths) {
  EXPECT_EQ(names_of({"/d/length_256", "/d/length_x"}), Names({"d.length_256", "length_x"}));
}

// The config.json of a run has absolute paths.
TEST(SourceNames, DoNotChangeWithAbsolutePaths) {
  Config config =
      parse_config(R"({"data": {"train": ["./texts", "x/texts", "x/../y/*.txt"]}})", "r.json", {});
  const Names before = source_names(config.data.train);
  make_paths_absolute(config);
  EXPECT_EQ(source_names(config.data.train), before);
  EXPECT_EQ(before[1], "x.texts");
  EXPECT_EQ(before[0], std::filesystem::current_path().filename().string() + ".texts");
}

}  // namespace
}  // namespace lmtrain
