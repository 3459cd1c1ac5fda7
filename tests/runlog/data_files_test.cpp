#include "runlog/data_files.h"

#include <chrono>
#include <cstdlib>

#include "base/examine.h"
#include "base/file.h"
#include "base/support.h"
#include "config/parse.h"
#include "formats/data_totals.h"

namespace lmtrain {
namespace {

namespace fs = std::filesystem;

using testing::error_of;
using testing::TemporaryFolder;

// A run on a folder of text and a file of held-out text, whose checkpoint has the fingerprint "the
// data".
class DataFilesTest : public ::testing::Test {
 protected:
  DataFilesTest() {
    lmtrain::create_directories(run.path());
    lmtrain::create_directories(folder / "text");
    for (const char* name : {"text/a.txt", "text/b.txt", "held_out.txt"})
      write(name, "text of " + std::string(name));
    config = parse_config(R"({"data": {"train": [")" + (folder / "text").string() +
                              R"("], "eval": [")" + (folder / "held_out.txt").string() + "\"]}}",
                          "x.json", {});
    record_data_files(run, config);
  }

  void write(const std::string& name, const std::string& text) const {
    write_file_atomic(folder / name, text);
  }
  // As a write of the same text a second later.
  void touch(const std::string& name) const {
    fs::last_write_time(folder / name,
                        fs::last_write_time(folder / name) + std::chrono::seconds(1));
  }
  std::string refusal_of(const RunFolder& of) const {
    return error_of(ErrorKind::kData, [&] {
      require_same_data(of, run.checkpoint(5), "the data", config, "other text");
    });
  }
  std::string refusal() const { return refusal_of(run); }
  std::string warning() const {
    ::testing::internal::CaptureStderr();
    warn_of_changed_files(run, config);
    return ::testing::internal::GetCapturedStderr();
  }
  std::string path(const std::string& name) const { return (folder / name).string(); }

  TemporaryFolder folder;
  RunFolder run{folder / "run"};
  Config config;
};

// A user who clears the model that the run began from takes the run's tokenizer with it.
TEST_F(DataFilesTest, AGivenTokenizerThatIsGoneIsPutBackFromACheckpoint) {
  config.tokenizer.model = path("given/own.model");
  const auto refusal = [&] {
    return error_of(ErrorKind::kUsage, [&] { require_given_tokenizer(run, config); });
  };
  EXPECT_TRUE(
      refusal().ends_with("does not exist any more, and the run was begun with this "
                          "tokenizer; put it back"))
      << refusal();
  lmtrain::create_directories(run.checkpoint(5));
  write_file_atomic(run.checkpoint(5) / "tokenizer.model", "its bytes");
  for (const char* name : {"tokenizer_config.json", "added_tokens.json"})
    write_file_atomic(run.checkpoint(5) / name, name);
  const std::string message = refusal();
  const std::string command = message.substr(message.find("mkdir -p "));
  EXPECT_EQ(std::system(command.c_str()), 0) << command;
  EXPECT_EQ(read_file(path("given/own.model")), "its bytes");
  EXPECT_EQ(read_file(path("given/added_tokens.json")), "added_tokens.json");
  EXPECT_FALSE(is_there(path("given/tokenizer_config.json"))) << "a checkpoint has one of its own";
  require_given_tokenizer(run, config);
}

TEST_F(DataFilesTest, AGivenTokenizerJsonIsPutBackWithTheFilesBesideIt) {
  config.tokenizer.model = path("given/tokenizer.json");
  lmtrain::create_directories(run.checkpoint(5));
  for (const char* name : {"tokenizer.json", "tokenizer_config.json"})
    write_file_atomic(run.checkpoint(5) / name, name);
  const std::string message =
      error_of(ErrorKind::kUsage, [&] { require_given_tokenizer(run, config); });
  EXPECT_EQ(std::system(message.substr(message.find("mkdir -p ")).c_str()), 0) << message;
  for (const char* name : {"tokenizer.json", "tokenizer_config.json"})
    EXPECT_EQ(read_file(folder / "given" / name), name);
}

TEST_F(DataFilesTest, TheTotalsAreThoseOfTheOrder) {
  PreparedData data;
  data.train_documents = 2;
  data.train_tokens = 900;
  data.eval_bytes = 30;
  SourceSummary source;
  source.documents = 2;
  source.targets = 898;
  record_data_totals(run, data, {source});
  EXPECT_EQ(read_data_totals(run.data_totals()),
            (DataTotals{{2, 900, 0}, {0, 0, 30}, {{0, 2, 898}}}));
}

TEST_F(DataFilesTest, TheSameDataPass) {
  require_same_data(run, run.checkpoint(5), "the data", config, "the data");
  EXPECT_EQ(warning(), "");
}

TEST_F(DataFilesTest, TextOfAnotherSizeIsRefusedBeforeItIsRead) {
  refuse_changed_text(run, config);
  touch("text/a.txt");
  write("text/c.jsonl", "{}");
  refuse_changed_text(run, config);  // only the text can tell
  write("text/b.txt", "longer text of text/b.txt");
  const std::string message = error_of(ErrorKind::kData, [&] { refuse_changed_text(run, config); });
  EXPECT_NE(message.find("the data of the run has changed: "), std::string::npos) << message;
  EXPECT_NE(message.find(path("text/b.txt") + " has 25 bytes and had 18"), std::string::npos)
      << message;
}

TEST_F(DataFilesTest, EachChangedFileIsNamedWithWhatHasChanged) {
  write("text/a.txt", "longer text of text/a.txt");
  touch("text/b.txt");
  write("text/c.txt", "");
  fs::remove(folder / "held_out.txt");
  write("held_out.txt.moved", "");
  config.data.eval->front().path = path("held_out.txt.moved");
  const std::string changes = path("held_out.txt") + " is not there any more, " +
                              path("held_out.txt.moved") + " is new, " + path("text/a.txt") +
                              " has 25 bytes and had 18, 2 other files changed too";
  EXPECT_EQ(refusal(), "the data of the run has changed: " + changes +
                           "; restore what it was, or start a new run with init_from");
  EXPECT_NE(warning().find(changes), std::string::npos) << warning();
  write("text/a.txt", "text of text/a.txt");
  touch("text/a.txt");
  EXPECT_NE(refusal().find(path("text/a.txt") + " was written to and has the size that it had"),
            std::string::npos)
      << refusal();
}

TEST_F(DataFilesTest, AreThoseOfTheLastStart) {
  write("text/c.txt", "");
  EXPECT_NE(warning(), "");
  record_data_files(run, config);
  EXPECT_EQ(warning(), "");
  EXPECT_NE(refusal().find("each has the size and time that it had when the run was last started"),
            std::string::npos)
      << refusal();
}

TEST_F(DataFilesTest, ABranchBeginsWithThoseOfItsOrigin) {
  const RunFolder branch(folder / "branch", {"id", BranchPoint{"", run.path(), 5}});
  lmtrain::create_directories(branch.path());
  write("text/c.txt", "");
  EXPECT_NE(refusal_of(branch).find(path("text/c.txt") + " is new"), std::string::npos);
  record_data_files(branch, config);
  EXPECT_EQ(refusal_of(branch).find("is new"), std::string::npos);
}

// Without the list the checkpoint and both fingerprints are named.
TEST_F(DataFilesTest, AListThatIsGoneOrDamagedDecidesNothing) {
  const std::string both = str("the data of the run has changed: ", run.checkpoint(5).string(),
                               " was trained on the data, the files now give other text; ");
  write("text/c.txt", "");
  for (const std::string damage : {"", "{}", R"({"files": [[]]})", "[", "\x01"}) {
    write_file_atomic(run.data_files(), damage);
    const std::string message = warning();
    EXPECT_NE(message.find(run.data_files().string()), std::string::npos) << message;
    EXPECT_NE(message.find("it is passed over"), std::string::npos) << message;
    EXPECT_EQ(refusal().rfind(both, 0), 0U) << refusal();
  }
  fs::remove(run.data_files());
  EXPECT_EQ(warning(), "");
  EXPECT_EQ(refusal().rfind(both, 0), 0U) << refusal();
}

TEST_F(DataFilesTest, TextThatIsGoneLeavesTheListAsItIs) {
  fs::remove(folder / "held_out.txt");
  record_data_files(run, config);
  write("held_out.txt", "text of held_out.txt");
  touch("held_out.txt");
  EXPECT_NE(refusal().find(path("held_out.txt") + " was written to"), std::string::npos)
      << refusal();
}

}  // namespace
}  // namespace lmtrain
