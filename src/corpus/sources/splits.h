// The parts of a data set (train, validation, test) as file and folder names tell them: the files
// of one entry of the config are searched for names such as train-00000-of-00002.parquet,
// test.jsonl or validation/x.txt, so that text meant for evaluation is not trained on. Knows names
// alone.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace lmtrain {

// The purpose of the files of a list.
enum class Role : uint8_t { kTrain, kHeldOut };

enum class SplitKind : uint8_t { kNone, kTrain, kValidation, kTest, kOther };

// The kind of split that a word names ("train", "dev", "Validation"); kNone for a word that names
// none.
SplitKind split_kind(std::string_view word);

// The name of the split that a role takes out of `names`: for training "train", for evaluation the
// validation split, else the test split. Empty when there is none.
std::string choose_split(const std::vector<std::string>& names, Role role);

struct SplitFiles {
  std::vector<std::filesystem::path> files;  // those to read
  std::vector<std::string> notes;            // what was decided, for people
  std::string problem;                       // not empty: there are splits, and none fits the role
};

// Chooses among the files of a folder, all of them below `root`: where files of several splits lie
// side by side, those of the role's split are read, and for training those of no split.
SplitFiles select_split(const std::filesystem::path& root,
                        const std::vector<std::filesystem::path>& files, Role role);

// For files that a pattern names, all of which are read: a warning where they are of several
// splits, else empty.
std::string mixed_splits(const std::filesystem::path& root,
                         const std::vector<std::filesystem::path>& files);

// Whether a name is that of a file of a data set rather than a document: by extension, with that of
// a compression taken off.
bool is_data_name(const std::filesystem::path& path);

}  // namespace lmtrain
