#include "runlog/data_files.h"

#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "base/error.h"
#include "base/examine.h"
#include "base/file.h"
#include "base/log.h"
#include "base/text.h"
#include "base/utf8.h"
#include "formats/data_totals.h"
#include "formats/strict_json.h"
#include "prepare/given_tokenizer.h"
#include "text/sources.h"
#include "tokenizer/tokenizer.h"

namespace lmtrain {
namespace {

namespace fs = std::filesystem;

// A path of 200 bytes for each of five million files.
constexpr uint64_t kLargestList = uint64_t{1} << 30;
constexpr std::string_view kSpecialTokensMap = "special_tokens_map.json";
constexpr std::string_view kAddedTokens = "added_tokens.json";

struct FileMark {
  uint64_t size = 0;
  int64_t mtime_ns = 0;
};

using FileMarks = std::map<std::string, FileMark>;  // by path, in UTF-8

FileMarks list_now(const Config& config) {
  const WarningsMuted muted;  // the preparation says what there is to say of the listing
  std::vector<SourceFile> files =
      list_source_files(config.data.train, kTrainPointer, config.data.format, Role::kTrain);
  if (config.data.eval) {
    for (SourceFile& file :
         list_source_files(*config.data.eval, "/data/eval", config.data.format, Role::kHeldOut))
      files.push_back(std::move(file));
  }
  if (config.tokenizer.model) {
    const fs::path path = given_tokenizer_path(config);
    if (is_file(path)) files.push_back(source_file(path));
  }
  FileMarks marks;
  for (const SourceFile& file : files)
    marks[replacing_malformed(file.path.native())] = {file.size, file.mtime_ns};
  return marks;
}

// Returns nothing where the list is gone or damaged. A branch that was
// not trained yet has the list of the run that it came from.
std::optional<FileMarks> read_list(const RunFolder& run) {
  fs::path path = run.data_files();
  const std::optional<BranchPoint>& origin = run.identity().branch_of;
  try {
    if (!is_there(path) && origin) path = RunFolder(origin->run_dir).data_files();
    if (!is_there(path)) return std::nullopt;
    FileMarks marks;
    const nlohmann::json fields = read_checked_json(path, kLargestList);
    for (const nlohmann::json& file : fields.at("files")) {
      marks[file.at(0).get<std::string>()] = {integer_in<uint64_t>(file.at(1)),
                                              integer_in<int64_t>(file.at(2))};
    }
    return marks;
  } catch (const nlohmann::json::exception& error) {
    log_warning(str(path.string(), ": ", error.what(), "; it is passed over"));
  } catch (const Error& error) {
    log_warning(str(error.what(), "; it is passed over"));
  }
  return std::nullopt;
}

std::optional<std::string> describe_change(const std::string& path, const FileMark* was,
                                           const FileMark* is) {
  if (was == nullptr) return path + " is new";
  if (is == nullptr) return path + " is not there any more";
  if (is->size != was->size) {
    return str(path, " has ", counted(static_cast<int64_t>(is->size), "byte"), " and had ",
               was->size);
  }
  if (is->mtime_ns != was->mtime_ns) return path + " was written to and has the size that it had";
  return std::nullopt;
}

// Returns whether another size of the file proves another text: not if lines may be blank, or parts
// other than text may have changed.
bool is_plain_text(const fs::path& path, DataFormat format) {
  const bool is_text_name = path.extension() == ".txt" || path.extension() == ".md";
  return is_text_name && (format == DataFormat::kText || format == DataFormat::kAuto);
}

// Returns the changes of the first files, in byte order of path, and the number of others; empty
// where no file has changed. Returns nothing where there is no list.
std::optional<std::string> describe_changes(const RunFolder& run, const Config& config) {
  constexpr size_t kNamed = 3;
  const std::optional<FileMarks> was = read_list(run);
  if (!was) return std::nullopt;
  const FileMarks is = list_now(config);
  FileMarks all = *was;
  all.insert(is.begin(), is.end());
  std::vector<std::string> named;
  int64_t others = 0;
  const auto mark_in = [](const FileMarks& marks, const std::string& path) {
    const auto found = marks.find(path);
    return found == marks.end() ? nullptr : &found->second;
  };
  for (const auto& [path, mark] : all) {
    std::optional<std::string> change =
        describe_change(path, mark_in(*was, path), mark_in(is, path));
    if (!change) continue;
    if (named.size() < kNamed) {
      named.push_back(std::move(*change));
    } else {
      ++others;
    }
  }
  if (others > 0) named.push_back(str(counted(others, "other file"), " changed too"));
  return join(named, ", ");
}

// Returns the command that copies the tokenizer of the newest checkpoint to `path`; empty without a
// checkpoint.
std::string copy_back_command(const RunFolder& run, const fs::path& path) {
  const std::vector<int64_t> steps = run.checkpoint_steps();
  if (steps.empty()) return "";
  const fs::path from = run.checkpoint(steps.front());
  const fs::path folder = path.parent_path();
  const auto copy = [&](std::string_view name, const fs::path& to) {
    return str(" && cp ", shell_quoted((from / name).string()), " ", shell_quoted(to.string()));
  };
  std::string command = str("mkdir -p ", shell_quoted(folder.string()));
  const bool is_json = is_there(from / Tokenizer::kTokenizerJson);
  command += copy(is_json ? Tokenizer::kTokenizerJson : Tokenizer::kSentencePieceModel, path);
  // A tokenizer is read together with these files beside it. The tokenizer_config.json that a
  // checkpoint has with a sentencepiece model is not the given one.
  const std::string_view other = is_json ? Tokenizer::kTokenizerConfig : kAddedTokens;
  for (const std::string_view name : {other, kSpecialTokensMap})
    if (is_there(from / name)) command += copy(name, folder);
  return command;
}

[[noreturn]] void refuse_data(const std::string& what) {
  throw Error(ErrorKind::kData, str("the data of the run has changed: ", what,
                                    "; restore what it was, or start a new run with init_from"));
}

}  // namespace

void record_data_files(const RunFolder& run, const Config& config) {
  run.require_there();
  try {
    nlohmann::json files = nlohmann::json::array();
    for (const auto& [path, mark] : list_now(config))
      files.push_back({path, mark.size, mark.mtime_ns});
    write_file_atomic(run.data_files(),
                      checked_json_text({{"files", std::move(files)}}, /*indent=*/-1));
  } catch (const Error& error) {
    log_warning(str("the list of the data's files is not brought up to date: ", error.what()));
  }
}

void record_data_totals(const RunFolder& run, const PreparedData& data,
                        const std::vector<SourceSummary>& sources) {
  DataTotals totals{{data.train_documents, data.train_tokens, data.train_bytes},
                    {data.eval_documents, data.eval_tokens, data.eval_bytes},
                    {}};
  for (const SourceSummary& source : sources)
    totals.sources.push_back({source.source, source.documents, source.targets});
  if (read_data_totals(run.data_totals()) != totals) write_data_totals(run.data_totals(), totals);
}

void warn_of_changed_files(const RunFolder& run, const Config& config) {
  const std::string changes = describe_changes(run, config).value_or("");
  if (changes.empty()) return;
  log_warning(
      str("files of the run's data are not as they were when it was last started: ", changes,
          "; their text is read again, and the run goes on only if it is the same"));
}

void require_given_tokenizer(const RunFolder& run, const Config& config) {
  if (!config.tokenizer.model) return;
  const fs::path path = absolute_path(*config.tokenizer.model);
  if (is_there(path)) return;
  const std::string command = copy_back_command(run, path);
  throw Error(
      ErrorKind::kUsage,
      str("/tokenizer/model: ", shown(path),
          " does not exist any more, and the run was begun with this tokenizer; put it back",
          command.empty() ? "" : ", or its copy in the newest checkpoint: ", command));
}

void refuse_changed_text(const RunFolder& run, const Config& config) {
  const std::optional<FileMarks> was = read_list(run);
  if (!was) return;
  const FileMarks is = list_now(config);
  for (const auto& [path, mark] : is) {
    const auto before = was->find(path);
    // A file that is gone or new may have been moved.
    if (before == was->end() || before->second.size == mark.size) continue;
    if (!is_plain_text(path, config.data.format)) continue;
    refuse_data(describe_changes(run, config).value_or(path));
  }
}

void require_same_data(const RunFolder& run, const fs::path& trained, const std::string& recorded,
                       const Config& config, const std::string& fingerprint) {
  if (recorded == fingerprint) return;
  std::string what =
      str(trained.string(), " was trained on ", recorded, ", the files now give ", fingerprint);
  const std::optional<std::string> changes = describe_changes(run, config);
  if (changes && !changes->empty()) {
    what = *changes;
  } else if (changes) {
    what +=
        ", and each has the size and time that it had when the run was last started: one was "
        "written to during that start, or its time was set back, or this version of lmtrain "
        "reads them otherwise";
  }
  refuse_data(what);
}

}  // namespace lmtrain
