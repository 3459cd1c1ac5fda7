#include "text/dataset_folder.h"

#include <algorithm>
#include <array>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "base/error.h"
#include "base/examine.h"
#include "base/file.h"
#include "base/log.h"
#include "base/stop.h"
#include "base/text.h"
#include "formats/strict_json.h"
#include "text/byte_stream.h"
#include "text/sample_shard.h"

namespace lmtrain {
namespace {

namespace fs = std::filesystem;
using Paths = std::vector<fs::path>;

constexpr const char* kDictFile = "dataset_dict.json";
constexpr const char* kStateFile = "state.json";
constexpr const char* kInfoFile = "dataset_info.json";

// The endings of unfinished downloads, of locks and of what tools keep.
constexpr std::array<std::string_view, 19> kToolEndings = {
    ".incomplete", ".lock", ".part",  ".partial",    ".crdownload", ".download", ".filepart",
    ".tmp",        ".temp", ".aria2", ".swp",        ".swo",        ".bak",      ".orig",
    "~",           ".dvc",  ".crc",   ".opdownload", ".unconfirmed"};

bool is_below(const fs::path& path, const fs::path& folder) {
  const auto [end, rest] = std::mismatch(folder.begin(), folder.end(), path.begin(), path.end());
  return end == folder.end() && rest != path.end();
}

nlohmann::json read_json(const fs::path& path) {
  return parse_strict_json(read_file(path),
                           {ErrorKind::kData, shown(path), "save the data set again", 64});
}

[[noreturn]] void fail_form(const fs::path& path, const std::string& what) {
  throw Error(ErrorKind::kData, str(shown(path), ": ", what,
                                    "; it is damaged or of an unknown version of datasets: save "
                                    "the data set again, or name its files by a pattern"));
}

std::vector<std::string> splits_of(const fs::path& dict) {
  const fs::path path = dict / kDictFile;
  const nlohmann::json json = read_json(path);
  if (!json.is_object() || !json.contains("splits") || !json["splits"].is_array())
    fail_form(path, "no list \"splits\"");
  std::vector<std::string> names;
  for (const nlohmann::json& name : json["splits"]) {
    if (!name.is_string()) fail_form(path, "a split without a name");
    names.push_back(name.get<std::string>());
  }
  return names;
}

// The data files that state.json lists, which must be all the data there is.
std::vector<std::string> data_files_of(const fs::path& set) {
  const fs::path path = set / kStateFile;
  const nlohmann::json json = read_json(path);
  if (!json.is_object() || !json.contains("_data_files") || !json["_data_files"].is_array())
    fail_form(path, "no list \"_data_files\"");
  // Versions of datasets before 2.0 save which rows count, and in which order, in a file of its
  // own.
  if (const auto index = json.find("_indices_data_files");
      index != json.end() && !index->is_null() && !index->empty()) {
    throw Error(ErrorKind::kConfig,
                str(shown(path),
                    ": the data set is a selection of the rows of its files, which is not read; "
                    "save it again after flatten_indices()"));
  }
  std::vector<std::string> names;
  for (const nlohmann::json& file : json["_data_files"]) {
    if (!file.is_object() || !file.contains("filename") || !file["filename"].is_string())
      fail_form(path, "a data file without a name");
    names.push_back(file["filename"].get<std::string>());
    if (fs::path(names.back()).filename() != names.back())
      fail_form(path, str("the file name ", quote(names.back()), " leads out of the folder"));
  }
  return names;
}

// Returns whether the folder is one that lmtrain writes: a run, a forecast, or a cache of token
// shards.
bool is_own_folder(const fs::path& folder) {
  if (is_folder(folder / "config_history") && is_file(folder / "config.json")) return true;
  // forecast.json comes at the end, when all rungs are trained.
  if (is_file(folder / "ladder.json") && is_file(folder / ".lock")) return true;
  if (!is_folder(folder / "index") || !is_folder(folder / "locks")) return false;
  const std::vector<std::string> locks = list_folder_if_there(folder / "locks");
  return std::any_of(locks.begin(), locks.end(),
                     [](const std::string& name) { return name.starts_with("index-"); });
}

// Folders of datasets around the files: of a saved DatasetDict, of a saved Dataset, of its cache.
struct SavedFolders {
  std::set<fs::path> dicts;
  std::set<fs::path> sets;
  std::set<fs::path> caches;

  explicit SavedFolders(const Paths& files) {
    std::set<fs::path> seen;
    for (const fs::path& file : files) {
      const fs::path folder = file.parent_path();
      if (file.filename() == kDictFile) dicts.insert(folder);
      const bool is_part = file.extension() == ".arrow" || file.filename() == kStateFile;
      if (!is_part || !seen.insert(folder).second) continue;
      if (is_file(folder / kInfoFile))
        (is_file(folder / kStateFile) ? sets : caches).insert(folder);
      if (is_file(folder.parent_path() / kDictFile)) dicts.insert(folder.parent_path());
    }
  }
};

class Selection {
 public:
  Selection(fs::path root, Paths files, std::string pattern, Role role, std::string prefix)
      : root_(std::move(root)),
        files_(std::move(files)),
        pattern_(std::move(pattern)),
        is_pattern_(!pattern_.empty()),
        role_(role),
        prefix_(std::move(prefix)) {}

  // Leaves out the files that downloads, editors and tools leave beside data. Of a hub's cache it
  // keeps the files of one snapshot.
  void leave_out_tool_files() {
    take_snapshots();
    std::set<fs::path> unfinished;  // files that are being downloaded, by the mark beside them
    for (const fs::path& file : files_) {
      const fs::path extension = file.extension();
      if (extension == ".aria2") unfinished.insert(fs::path(file).replace_extension());
    }
    leave_out_named("not finished, or a tool's own", [&](const fs::path& file) {
      return unfinished.count(file) != 0 || is_tool_file(file);
    });
  }

  // Leaves out the files of lmtrain's runs and caches below the folder. They change while a run is
  // trained, and a run goes on only with the text that it began with. A pattern without "**" spells
  // the way to its files, so that they are meant.
  void leave_out_own_files() {
    if (is_pattern_ && pattern_.find("**") == std::string::npos) return;
    std::map<fs::path, fs::path> owners;  // of each folder: the run or the cache, or empty
    std::set<std::string> left_out;
    std::erase_if(files_, [&](const fs::path& file) {
      const fs::path owner = owner_of(file.parent_path(), owners);
      if (!owner.empty()) left_out.insert(str("\"", shown(owner), "\""));
      return !owner.empty();
    });
    if (left_out.empty()) return;
    log_note(str(prefix_, "left out: ", *left_out.begin(),
                 left_out.size() > 1 ? str(" and ", left_out.size() - 1, " more") : "",
                 " (a run or a cache of lmtrain, no text)"));
  }

  void take_saved_sets() {
    const SavedFolders saved(files_);
    for (const fs::path& dict : saved.dicts) take_split(dict);
    for (const fs::path& set : saved.sets) take_data_files(set);
    for (const fs::path& cache : saved.caches) leave_out_results(cache);
  }

  // In folders of shards (sample_shard.h), takes the shards that their index.json lists.
  void take_shards() {
    Paths indices;
    std::copy_if(files_.begin(), files_.end(), std::back_inserter(indices),
                 [](const fs::path& file) { return file.filename() == kShardIndexName; });
    // The index of a folder may list the shards of the folders below it, which have their own.
    std::stable_sort(indices.begin(), indices.end(), [](const fs::path& a, const fs::path& b) {
      return std::distance(a.begin(), a.end()) < std::distance(b.begin(), b.end());
    });
    if (indices.empty()) return;
    const std::set<fs::path> there(files_.begin(), files_.end());
    std::set<fs::path> left_out;
    std::set<fs::path> listed;       // shards
    std::set<fs::path> have_a_list;  // folders
    std::set<fs::path> lists_below;
    for (const fs::path& path : indices) {
      const std::optional<ShardIndex> index = read_shard_index(path);
      if (!index) continue;
      left_out.insert(path);
      const fs::path folder = path.parent_path();
      const bool is_listed =
          std::any_of(lists_below.begin(), lists_below.end(),
                      [&](const fs::path& other) { return is_below(folder, other); });
      if (is_listed) continue;
      have_a_list.insert(folder);
      for (const ShardIndex::Shard& shard : index->shards) {
        throw_if_stopped();
        if (shard.file.find('/') != std::string::npos) lists_below.insert(folder);
        take_shard(there, folder, shard, listed, left_out);
      }
    }
    std::erase_if(files_, [&](const fs::path& file) { return left_out.contains(file); });
    leave_out_named("not in index.json", [&](const fs::path& file) {
      return without_compression(file).extension() == ".mds" && !listed.contains(file) &&
             have_a_list.contains(file.parent_path());
    });
  }

  // Leaves out the files that describe a data set: in a snapshot of the hub, and with
  // `is_beside_tables` also beside the files of a data set or at the root above them.
  void leave_out_cards(bool is_beside_tables) {
    constexpr std::array<std::string_view, 13> kCards = {
        "README.md",          "README",      "README.txt",   "LICENSE",
        "LICENSE.md",         "LICENSE.txt", "CITATION.cff", kInfoFile,
        "dataset_infos.json", "SHA256SUMS",  "MD5SUMS",      "sha256sum.txt",
        "md5sum.txt"};
    std::set<fs::path> folders;
    for (const fs::path& file : files_) {
      if (is_beside_tables && is_table_name(file)) folders.insert({file.parent_path(), root_});
    }
    folders.insert(snapshots_.begin(), snapshots_.end());
    leave_out_named("about the data set, no part of it", [&](const fs::path& file) {
      const bool is_card =
          std::find(kCards.begin(), kCards.end(), file.filename().native()) != kCards.end();
      return is_card && folders.count(file.parent_path()) != 0;
    });
  }

  void take_named_split() {
    if (is_pattern_) {
      if (const std::string mixed = mixed_splits(root_, files_); !mixed.empty())
        log_warning(str(prefix_, mixed, "; name the files of one split"));
      return;
    }
    SplitFiles chosen = select_split(root_, files_, role_);
    if (!chosen.problem.empty())
      throw Error(ErrorKind::kUsage,
                  str(prefix_, chosen.problem, "; name the files to read by a pattern"));
    for (const std::string& note : chosen.notes) log_note(prefix_ + note);
    files_ = std::move(chosen.files);
  }

  Paths files() && { return std::move(files_); }

 private:
  // A shard may be there compressed, as it was, or in both forms. Adds the form that is taken to
  // `listed`, and the other one to `left_out`.
  void take_shard(const std::set<fs::path>& there, const fs::path& folder,
                  const ShardIndex::Shard& shard, std::set<fs::path>& listed,
                  std::set<fs::path>& left_out) const {
    const auto has = [&](const std::string& file) {
      return !file.empty() && there.contains(folder / file);
    };
    const bool is_plain = has(shard.file);
    if (is_plain && has(shard.compressed_file)) left_out.insert(folder / shard.compressed_file);
    if (is_plain || has(shard.compressed_file)) {
      listed.insert(folder / (is_plain ? shard.file : shard.compressed_file));
      return;
    }
    if (is_pattern_) return;
    throw Error(ErrorKind::kData, str(shown(folder / shard.file), ": missing, and ",
                                      kShardIndexName, " lists it; get the data set anew"));
  }

  template <class Condition>
  void leave_out_named(const char* why, const Condition& condition) {
    std::vector<std::string> left_out;
    std::erase_if(files_, [&](const fs::path& file) {
      if (!condition(file)) return false;
      left_out.push_back(shown(file.filename()));
      return true;
    });
    if (left_out.empty()) return;
    const size_t num_left_out = left_out.size();
    left_out.resize(std::min<size_t>(num_left_out, 3));
    log_note(str(prefix_, "left out: ", join(left_out, ", "),
                 num_left_out > 3 ? str(" and ", num_left_out - 3, " more") : "", " (", why, ")"));
  }

  // Returns the folder of lmtrain at or above `folder` and below the root; empty if there is none.
  fs::path owner_of(const fs::path& folder, std::map<fs::path, fs::path>& owners) const {
    if (!is_below(folder, root_)) return {};
    if (const auto known = owners.find(folder); known != owners.end()) return known->second;
    fs::path owner = is_own_folder(folder) ? folder : owner_of(folder.parent_path(), owners);
    return owners.emplace(folder, std::move(owner)).first->second;
  }

  // Whether a pattern spells this ending, so that its files are meant.
  bool is_spelled(std::string_view ending) const {
    return is_pattern_ && std::string_view(pattern_).ends_with(ending);
  }

  bool is_tool_file(const fs::path& file) const {
    constexpr std::array<std::string_view, 7> kNames = {
        "_SUCCESS",  "_metadata",   "_common_metadata", "CACHEDIR.TAG",
        "Thumbs.db", "desktop.ini", "dvc.yaml"};
    constexpr std::array<std::string_view, 6> kFolders = {
        "_temporary", "_delta_log", "_spark_metadata", "__MACOSX", "__pycache__", "lost+found"};
    const std::string name = file.filename().native();
    const auto ends = [&](std::string_view ending) {
      return name.size() > ending.size() && name.ends_with(ending) && !is_spelled(ending);
    };
    if (std::any_of(kToolEndings.begin(), kToolEndings.end(), ends)) return true;
    if (name.starts_with("_started_") || name.starts_with("_committed_")) return true;
    if (std::find(kNames.begin(), kNames.end(), name) != kNames.end() && !is_spelled(name))
      return true;
    if (name == "version.txt" && is_folder(file.parent_path() / ".locks"))
      return true;  // the hub's
    const fs::path below = file.lexically_relative(root_).parent_path();
    return std::any_of(below.begin(), below.end(), [&](const fs::path& part) {
      return std::find(kFolders.begin(), kFolders.end(), part.native()) != kFolders.end();
    });
  }

  // huggingface_hub keeps files as blobs/HASH, and for each revision links to them below
  // snapshots/REVISION; refs/main names the revision that counts.
  void take_snapshots() {
    std::set<fs::path> repositories;
    std::set<fs::path> seen;
    for (const fs::path& file : files_) {
      for (fs::path folder = file.parent_path();
           folder.has_relative_path() && seen.insert(folder).second;
           folder = folder.parent_path()) {
        if (is_of_repository(folder)) repositories.insert(folder.parent_path());
      }
    }
    for (const fs::path& repository : repositories) take_snapshot(repository);
  }
  // Blobs that the entry names itself are meant.
  bool is_of_repository(const fs::path& folder) const {
    const fs::path name = folder.filename();
    const bool is_part = (name == "blobs" || name == "refs") && is_below(folder, root_);
    if (name != "snapshots" && !is_part) return false;
    const fs::path repository = folder.parent_path();
    return is_folder(repository / "blobs") &&
           (is_folder(repository / "refs") || is_folder(repository / "snapshots"));
  }
  void take_snapshot(const fs::path& repository) {
    std::set<std::string> revisions;
    const fs::path snapshots = repository / "snapshots";
    for (const fs::path& file : files_) {
      if (is_below(file, snapshots))
        revisions.insert(file.lexically_relative(snapshots).begin()->native());
    }
    std::string revision = revisions.empty() ? std::string() : *revisions.begin();
    if (revisions.size() > 1) {
      const fs::path main = repository / "refs" / "main";
      revision = is_file(main) ? first_line(read_file(main)) : std::string();
      if (revisions.count(revision) == 0) {
        throw Error(ErrorKind::kUsage,
                    str(prefix_, "\"", shown(repository), "\" holds ", revisions.size(),
                        " snapshots of a data set, and refs/main names none of them; name the "
                        "folder of one below snapshots"));
      }
      log_note(str(prefix_, "\"", shown(repository), "\" holds ", revisions.size(),
                   " snapshots; that of refs/main is taken, ", shown(revision)));
    }
    const fs::path taken = snapshots / revision;
    snapshots_.insert(taken);
    int64_t left_out = 0;
    std::erase_if(files_, [&](const fs::path& file) {
      const bool is_taken = !revision.empty() && is_below(file, taken);
      if (!is_below(file, repository) || is_taken) return false;
      ++left_out;
      return true;
    });
    if (left_out > 0) {
      log_note(str(prefix_, "\"", shown(repository), "\": ", counted(left_out, "file"),
                   " of the cache of the hub left out",
                   revision.empty() ? ", which has no snapshot" : " beside the snapshot ",
                   shown(revision)));
    }
  }

  // Returns whether only files of data sets have such a name.
  static bool is_table_name(const fs::path& file) {
    const fs::path name = without_compression(file.filename());
    const bool is_compressed = name != file.filename();
    const fs::path extension = name.extension();
    if (extension == ".json")
      return is_compressed || file.filename().native().find("-of-") != std::string::npos;
    return extension == ".jsonl" || extension == ".ndjson" || extension == ".parquet" ||
           extension == ".arrow" || extension == ".feather" || extension == ".mds";
  }

  bool has_below(const fs::path& folder) const {
    return std::any_of(files_.begin(), files_.end(),
                       [&](const fs::path& file) { return is_below(file, folder); });
  }

  void take_split(const fs::path& dict) {
    const std::vector<std::string> names = splits_of(dict);
    const bool is_named = std::erase(files_, dict / kDictFile) > 0;
    std::vector<std::string> present;
    std::copy_if(names.begin(), names.end(), std::back_inserter(present),
                 [&](const std::string& name) { return has_below(dict / name); });
    if (is_pattern_) {
      if (present.size() > 1) {
        log_warning(str(prefix_, "the pattern takes the splits ", join(present, ", "), " of \"",
                        shown(dict), "\" together; name one of them"));
      }
      return;
    }
    if (!is_named) return;  // the folder of one split was named
    const std::string split = choose_split(names, role_);
    if (split.empty()) {
      std::vector<std::string> paths;
      paths.reserve(names.size());
      for (const std::string& name : names) paths.push_back(str("\"", shown(dict / name), "\""));
      throw Error(ErrorKind::kUsage,
                  str(prefix_, "\"", shown(dict), "\" holds the splits ", join(names, ", "),
                      " and none ", role_ == Role::kTrain ? "named train" : "for evaluation",
                      "; name the folder of one: ", join(paths, ", ")));
    }
    std::erase_if(files_, [&](const fs::path& file) {
      return is_below(file, dict) && !is_below(file, dict / split);
    });
    if (!has_below(dict / split)) {
      throw Error(ErrorKind::kData, str(shown(dict / split), ": the split that ", kDictFile,
                                        " names holds no file; get the data set anew"));
    }
    if (names.size() == 1) return;
    log_note(str(prefix_, "\"", shown(dict), "\" holds the splits ", join(names, ", "), "; ", split,
                 " is taken and the others are not ",
                 role_ == Role::kTrain ? "trained on" : "evaluated",
                 role_ == Role::kTrain ? " (name the folder of another in data.train or data.eval)"
                                       : " (name the folder of another to take it)"));
  }

  void take_data_files(const fs::path& set) {
    if (!has_below(set)) return;  // of a split that is not taken
    const std::vector<std::string> names = data_files_of(set);
    const std::set<std::string> listed(names.begin(), names.end());
    const std::set<fs::path> there(files_.begin(), files_.end());
    const auto is_listed = [&](const fs::path& file) {
      return listed.contains(file.filename().native());
    };
    for (const std::string& name : names) {
      if (is_pattern_ || there.contains(set / name)) continue;
      throw Error(ErrorKind::kData, str(shown(set / name), ": missing, and ", kStateFile,
                                        " lists it; get the data set anew"));
    }
    leave_out(set, "Arrow file", [&](const fs::path& file) { return !is_listed(file); });
  }

  // Leaves out what map(), filter() and shuffle() have written: the rows of other files again, or
  // their numbers.
  void leave_out_results(const fs::path& cache) {
    leave_out(cache, "cached result", [](const fs::path& file) {
      return file.filename().native().starts_with("cache-") && file.extension() == ".arrow";
    });
  }

  template <class Condition>
  void leave_out(const fs::path& folder, const char* noun, const Condition& condition) {
    int64_t left_out = 0;
    std::erase_if(files_, [&](const fs::path& file) {
      if (file.parent_path() != folder || !condition(file)) return false;
      if (file.extension() == ".arrow") ++left_out;
      return true;
    });
    if (left_out > 0) {
      log_note(str(prefix_, "\"", shown(folder), "\": ", counted(left_out, noun),
                   " left out that datasets keeps beside the data"));
    }
  }

  fs::path root_;
  Paths files_;
  std::string pattern_;
  bool is_pattern_;
  std::set<fs::path> snapshots_;  // of the hub's cache, that are taken
  Role role_;
  std::string prefix_;
};

}  // namespace

bool has_tool_ending(const fs::path& file) {
  const std::string name = file.filename().native();
  return std::any_of(kToolEndings.begin(), kToolEndings.end(), [&](std::string_view ending) {
    return name.size() > ending.size() && name.ends_with(ending);
  });
}

Paths documents_of(const fs::path& root, Paths found, const std::string& pattern, DataFormat format,
                   Role role, const std::string& prefix) {
  const bool is_named_text = format == DataFormat::kText || format == DataFormat::kLines;
  Selection selection(root, std::move(found), pattern, role, prefix);
  selection.leave_out_own_files();
  selection.leave_out_tool_files();
  const bool may_be_ids = format == DataFormat::kAuto || format == DataFormat::kTokens;
  if (may_be_ids || format == DataFormat::kArrow) selection.take_saved_sets();
  if (may_be_ids || format == DataFormat::kMds) selection.take_shards();
  selection.leave_out_cards(!is_named_text);
  selection.take_named_split();
  return std::move(selection).files();
}

}  // namespace lmtrain
