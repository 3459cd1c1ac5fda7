// Finds the splits of a data set (train, validation, test), so that a run does not train on text
// for evaluation. The names of files and folders in one entry of the config tell the splits:
// train-00000-of-00002.parquet, test.jsonl, validation/x.txt. No file is opened.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace lmtrain {

// A Role is the purpose of the files of a list: data.train, or text to evaluate.
enum class Role : uint8_t { kTrain, kHeldOut };

// The kind of a split. kOther is a split with any other name; the numbers in the names of its files
// show it (unsupervised-00000-of-00002.parquet). kNone is no split.
enum class SplitKind : uint8_t { kNone, kTrain, kValidation, kTest, kOther };

// Returns the kind of split that a word names ("train", "dev", "Validation"), in upper or lower
// case. For any other word it returns kNone, never kOther.
SplitKind split_kind(std::string_view word);

// Returns the first of `names` that fits the role: for training the train split, for evaluation the
// validation split, else the test split. Returns "" when no name fits.
std::string choose_split(const std::vector<std::string>& names, Role role);

struct SplitFiles {
  std::vector<std::filesystem::path> files;  // files to read
  std::vector<std::string> notes;            // messages for the log about the choice
  std::string problem;                       // set if no split fits the role; then no `files`
};

// Chooses among files below the folder `root`. Where files of several splits lie side by side, it
// takes the files of the split that fits the role. Elsewhere it takes all files. One exception: for
// evaluation, where several splits are found anywhere, it leaves out files of no split.
SplitFiles select_split(const std::filesystem::path& root,
                        const std::vector<std::filesystem::path>& files, Role role);

// Returns a warning if the files that match a pattern belong to several splits, all of which are
// read; else "".
std::string mixed_splits(const std::filesystem::path& root,
                         const std::vector<std::filesystem::path>& files);

// Returns whether a file has an extension of data sets (.jsonl, .parquet, .csv, .txt, .bin and
// others), before a compression's such as .gz. Only such names tell splits: train.py does not.
bool is_data_name(const std::filesystem::path& path);

}  // namespace lmtrain
