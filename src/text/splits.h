// Finds the splits of a data set (train, validation, test) by the names of files and folders, so
// that text meant for evaluation is not trained on: the files of one entry of the config are
// searched for names such as train-00000-of-00002.parquet, test.jsonl or validation/x.txt. No file
// is opened.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace lmtrain {

// A Role is the purpose of the files of a list: data.train, or text to evaluate.
enum class Role : uint8_t { kTrain, kHeldOut };

// A split with any other name is kOther: only the numbers in the names of its files show that it is
// one (unsupervised-00000-of-00002.parquet).
enum class SplitKind : uint8_t { kNone, kTrain, kValidation, kTest, kOther };

// Returns the kind of split that a word names ("train", "dev", "Validation", in any case of
// letters), and kNone, never kOther, for a word that names none.
SplitKind split_kind(std::string_view word);

// Returns the first of `names` that fits the role: for training the train split, for evaluation the
// validation split, else the test split. Returns an empty string when there is none.
std::string choose_split(const std::vector<std::string>& names, Role role);

struct SplitFiles {
  std::vector<std::filesystem::path> files;  // files to read
  std::vector<std::string> notes;            // messages for the log about the choice
  std::string problem;  // set when there are several splits and none fits; then `files` is empty
};

// Chooses among the files of a folder, all of them below `root`. Where files of several splits lie
// side by side, the files of the role's split are taken. All other files are taken too, except that
// for evaluation, where there are several splits, files of no split are not.
SplitFiles select_split(const std::filesystem::path& root,
                        const std::vector<std::filesystem::path>& files, Role role);

// Returns a warning where the files that a pattern names, all of which are read, belong to several
// splits; else an empty string.
std::string mixed_splits(const std::filesystem::path& root,
                         const std::vector<std::filesystem::path>& files);

// Returns whether the extension, with that of a compression taken off, is one that the files of
// data sets have (.jsonl, .parquet, .csv, .txt, .bin and others), so that words of its name may
// name a split; train.py is no such file.
bool is_data_name(const std::filesystem::path& path);

}  // namespace lmtrain
