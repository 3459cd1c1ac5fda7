#include "text/splits.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>

#include "base/text.h"
#include "text/byte_stream.h"

namespace lmtrain {
namespace {

namespace fs = std::filesystem;

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
bool is_decimal(char c) { return c >= '0' && c <= '9'; }

// "SPLIT-00000-of-00002", as `datasets` names the files of a split: SPLIT, else nothing.
std::string_view sharded_name(std::string_view stem) {
  const size_t of = stem.find("-of-");
  if (of == std::string_view::npos) return {};
  size_t digits = of;
  while (digits > 0 && is_decimal(stem[digits - 1])) --digits;
  const bool is_number = of - digits >= 2 && digits >= 2 && !is_letter(stem[digits - 1]);
  return is_number ? stem.substr(0, digits - 1) : std::string_view();
}

// The first word of a name, between all that is no letter, that is a split's.
std::string_view split_word(std::string_view name) {
  for (size_t begin = 0; begin < name.size();) {
    size_t end = begin;
    while (end < name.size() && is_letter(name[end])) ++end;
    const std::string_view word = name.substr(begin, end - begin);
    if (split_kind(word) != SplitKind::kNone) return word;
    begin = end + 1;
  }
  return {};
}

struct Label {
  std::string group;  // files that lie side by side
  std::string split;
  SplitKind kind = SplitKind::kNone;
  bool is_sharded = false;
};

// The label of a path below the entry, by the outermost folder that has a split's name, else by the
// file's name. Only files of data have deeper folders and names that count, since source code may
// have a train.py. Other files count with `by_folder`, for the folders directly below the entry.
std::optional<Label> label_of(const fs::path& relative, bool by_folder) {
  const bool is_data = is_data_name(relative);
  fs::path above;
  for (auto part = relative.begin(); part != relative.end(); ++part) {
    const bool is_name = std::next(part) == relative.end();
    if (is_name) break;
    const std::string name = part->native();
    const SplitKind kind = split_kind(name);
    if (kind != SplitKind::kNone && (is_data || (by_folder && above.empty())))
      return Label{(above / "*").native(), name, kind};
    above /= *part;
  }
  if (!is_data) return std::nullopt;
  const std::string name = without_compression(relative.filename()).stem().native();
  const std::string_view sharded = sharded_name(name);
  if (const std::string_view word = split_word(name); !word.empty())
    return Label{above.native(), std::string(word), split_kind(word), !sharded.empty()};
  if (sharded.empty()) return std::nullopt;
  return Label{above.native(), std::string(sharded), SplitKind::kOther, true};
}

// The splits of files side by side.
struct Group {
  std::map<std::string, int64_t> files;  // by split
  std::map<SplitKind, int64_t> kinds;
  bool train_is_sharded = false;

  void add(const Label& label) {
    ++files[label.split];
    ++kinds[label.kind];
    train_is_sharded = train_is_sharded || (label.kind == SplitKind::kTrain && label.is_sharded);
  }
  bool has(SplitKind kind) const { return kinds.count(kind) != 0; }
  // Returns whether these are several splits, and not merely several names of parts.
  bool is_mixed() const {
    if (has(SplitKind::kTrain)) {
      return has(SplitKind::kValidation) || has(SplitKind::kTest) ||
             (train_is_sharded && has(SplitKind::kOther));
    }
    return has(SplitKind::kValidation) && has(SplitKind::kTest);
  }
  std::string describe() const {
    std::vector<std::string> parts;
    for (const auto& [split, count] : files)
      parts.push_back(str(split, " (", counted(count, "file"), ")"));
    return join(parts, ", ");
  }
  std::vector<std::string> names() const {
    std::vector<std::string> names;
    for (const auto& [split, count] : files) names.push_back(split);
    return names;
  }
};

// Returns the labels of the files. Files that are no data have one by their folder below `root`
// only if all folders there have the names of splits: source code may have a folder `training`
// beside others.
std::vector<std::optional<Label>> labels_of(const fs::path& root,
                                            const std::vector<fs::path>& files) {
  std::vector<fs::path> below;
  below.reserve(files.size());
  bool by_folder = true;
  for (const fs::path& file : files) {
    below.push_back(file.lexically_relative(root));
    const fs::path& path = below.back();
    by_folder = by_folder &&
                (!path.has_parent_path() || split_kind(path.begin()->native()) != SplitKind::kNone);
  }
  std::vector<std::optional<Label>> labels;
  labels.reserve(below.size());
  for (const fs::path& path : below) labels.push_back(label_of(path, by_folder));
  return labels;
}

std::map<std::string, Group> group_files(const std::vector<std::optional<Label>>& labels) {
  std::map<std::string, Group> groups;
  for (const std::optional<Label>& label : labels) {
    if (label) groups[label->group].add(*label);
  }
  return groups;
}

fs::path folder_of(const fs::path& root, const std::string& group) {
  fs::path folder = root / group;
  if (folder.filename() == "*") folder = folder.parent_path();
  return folder.lexically_normal();
}

// The kind of split that a role takes out of a group.
SplitKind wanted_kind(const Group& group, Role role) {
  if (role == Role::kTrain)
    return group.has(SplitKind::kTrain) ? SplitKind::kTrain : SplitKind::kNone;
  if (group.has(SplitKind::kValidation)) return SplitKind::kValidation;
  return group.has(SplitKind::kTest) ? SplitKind::kTest : SplitKind::kNone;
}

}  // namespace

SplitKind split_kind(std::string_view word) {
  struct Word {
    const char* text;
    SplitKind kind;
  };
  constexpr std::array kWords = {
      Word{"train", SplitKind::kTrain},
      Word{"training", SplitKind::kTrain},
      Word{"validation", SplitKind::kValidation},
      Word{"valid", SplitKind::kValidation},
      Word{"val", SplitKind::kValidation},
      Word{"dev", SplitKind::kValidation},
      Word{"test", SplitKind::kTest},
      Word{"testing", SplitKind::kTest},
      Word{"eval", SplitKind::kTest},
      Word{"evaluation", SplitKind::kTest},
  };
  const std::string lower = lower_case(word);
  for (const Word& known : kWords) {
    if (lower == known.text) return known.kind;
  }
  return SplitKind::kNone;
}

std::string choose_split(const std::vector<std::string>& names, Role role) {
  const auto first_of = [&](SplitKind kind) -> std::string {
    const auto found = std::find_if(names.begin(), names.end(), [&](const std::string& name) {
      return split_kind(name) == kind;
    });
    return found == names.end() ? std::string() : *found;
  };
  if (role == Role::kTrain) return first_of(SplitKind::kTrain);
  const std::string validation = first_of(SplitKind::kValidation);
  return validation.empty() ? first_of(SplitKind::kTest) : validation;
}

SplitFiles select_split(const fs::path& root, const std::vector<fs::path>& files, Role role) {
  SplitFiles chosen;
  const std::vector<std::optional<Label>> labels = labels_of(root, files);
  const std::map<std::string, Group> groups = group_files(labels);
  for (const auto& [name, group] : groups) {
    if (!group.is_mixed()) continue;
    const std::string folder = shown(folder_of(root, name));
    const SplitKind wanted = wanted_kind(group, role);
    if (wanted == SplitKind::kNone) {
      chosen.problem = str("\"", folder, "\" holds the splits ", group.describe(), " and none ",
                           role == Role::kTrain ? "named train" : "for evaluation");
      return chosen;
    }
    chosen.notes.push_back(str("\"", folder, "\" holds the splits ", group.describe(), "; ",
                               choose_split(group.names(), role),
                               " is taken and the others are not ",
                               role == Role::kTrain ? "trained on" : "evaluated",
                               " (name the files of another by a pattern to take it)"));
  }
  for (size_t i = 0; i < files.size(); ++i) {
    const std::optional<Label>& label = labels[i];
    // Files of no split beside splits are for training alone.
    bool is_taken = role == Role::kTrain || chosen.notes.empty();
    if (label) {
      const Group& group = groups.at(label->group);
      is_taken = !group.is_mixed() || label->kind == wanted_kind(group, role);
    }
    if (is_taken) chosen.files.push_back(files[i]);
  }
  return chosen;
}

std::string mixed_splits(const fs::path& root, const std::vector<fs::path>& files) {
  for (const auto& [name, group] : group_files(labels_of(root, files))) {
    if (group.is_mixed())
      return str("the pattern takes the splits ", group.describe(), " of \"",
                 shown(folder_of(root, name)), "\" together");
  }
  return {};
}

bool is_data_name(const fs::path& path) {
  constexpr std::array<std::string_view, 16> kExtensions = {
      ".jsonl", ".ndjson", ".json", ".parquet", ".arrow", ".feather", ".csv",  ".tsv",
      ".txt",   ".tokens", ".raw",  ".bin",     ".npy",   ".idx",     ".text", ".mds"};
  const std::string extension = without_compression(path.filename()).extension().native();
  return std::find(kExtensions.begin(), kExtensions.end(), extension) != kExtensions.end();
}

}  // namespace lmtrain
