// Finds the splits of a data set (train, validation, test), so that text meant for evaluation is
// not trained on. It goes by the names of files and folders in one entry of the config, such as
// train-00000-of-00002.parquet, test.jsonl or validation/x.txt. No file is opened.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace lmtrain {

// A Role is the purpose of the files of a list: data.train, or text to evaluate.
enum class Role : uint8_t { kTrain, kHeldOut };

// The kind of a split. kOther is a split with any other name, which only the numbers in its files'
// names show to be a split (unsupervised-00000-of-00002.parquet). kNone is no split.
enum class SplitKind : uint8_t { kNone, kTrain, kValidation, kTest, kOther };

// Returns the kind of split that a word names ("train", "dev", "Validation"), in upper or lower
// case. For any other word it returns kNone, never kOther.
SplitKind split_kind(std::string_view word);

// Returns the first of `names` that fits the role: for training the train split, for evaluation the
// validation split, else the test split. Returns an empty string when there is none.
std::string choose_split(const std::vector<std::string>& names, Role role);

struct SplitFiles {
  std::vector<std::filesystem::path> files;  // files to read
  std::vector<std::string> notes;            // messages for the log about the choice
  std::string problem;                       // set if no split fits the role; then no `files`
};

// Chooses among files below the folder `root`. Where files of several splits lie side by side, it
// takes the files of the split that fits the role. It takes all files elsewhere, with one
// exception: for evaluation, once several splits are found, it leaves out files of no split.
SplitFiles select_split(const std::filesystem::path& root,
                        const std::vector<std::filesystem::path>& files, Role role);

// Returns a warning if the files that match a pattern belong to several splits, since all of them
// are read. Otherwise returns an empty string.
std::string mixed_splits(const std::filesystem::path& root,
                         const std::vector<std::filesystem::path>& files);

// Returns whether a file has an extension of data sets (.jsonl, .parquet, .csv, .txt, .bin and
// others). A compression's extension after it, such as .gz, is ignored. Only such names are
// searched for splits: train.py is no split.
bool is_data_name(const std::filesystem::path& path);

}  // namespace lmtrain
