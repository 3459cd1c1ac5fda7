#include <algorithm>
#include <iostream>
#include <memory>
#include <optional>

#include "base/error.h"
#include "base/examine.h"
#include "base/log.h"
#include "base/publish.h"
#include "base/text.h"
#include "cli/commands.h"
#include "cli/options.h"
#include "cli/path_arguments.h"
#include "config/parse.h"
#include "model/parameters.h"
#include "report/page.h"
#include "report/run_record.h"

namespace lmtrain {
namespace {

namespace fs = std::filesystem;

struct ReportArguments {
  std::vector<std::string> run_dirs;
  std::string to = "report.html";
};

// Returns the run of a path as typed. If it is beside others, as runs/* gives them, and neither a
// run nor a part of one, warns and returns nothing.
std::optional<RunFolder> run_of(const std::string& path, bool is_one_of_several) {
  try {
    return run_of_argument(path, "report");
  } catch (const Error& error) {
    const bool is_beside = is_one_of_several && is_there(path) && !run_around(absolute_path(path));
    if (!is_beside || error.kind() != ErrorKind::kUsage) throw;
    log_warning(str(error.what(), "; it is left out"));
    return std::nullopt;
  }
}

// Each run once, in the order typed. Two paths of one folder, such as a link and what it leads to,
// are one run. Throws Error(kUsage) if no path leads to a run.
std::vector<RunFolder> runs_of(const std::vector<std::string>& typed) {
  std::vector<RunFolder> runs;
  std::vector<FileInfo> seen;
  for (const std::string& path : typed) {
    const bool is_last_hope = runs.empty() && &path == &typed.back();
    std::optional<RunFolder> found = run_of(path, !is_last_hope);
    if (!found) continue;
    RunFolder run = std::move(*found);
    const FileInfo info = examine(run.path());
    if (std::any_of(seen.begin(), seen.end(), [&](const FileInfo& other) {
          return other.device == info.device && other.inode == info.inode;
        })) {
      log_note(str(run.path().string(), " was given twice; it is shown once"));
      continue;
    }
    seen.push_back(info);
    runs.push_back(std::move(run));
  }
  return runs;
}

// Returns the number of parameters of the run's model; nothing if this version cannot read its
// config.
std::optional<int64_t> parameters_of(const RunFolder& run) {
  try {
    const Config config = load_config(run.config().string(), {}, ConfigAuthor::kRun);
    if (!config.model.vocab_size) return std::nullopt;
    return ParameterLayout(config.model, *config.model.vocab_size).num_parameters();
  } catch (const Error&) {
    return std::nullopt;
  }
}

int write_report(const ReportArguments& options) {
  const std::vector<RunFolder> folders = runs_of(options.run_dirs);
  // A page may replace an earlier page, and nothing else.
  require_place_of({"--to", "report of lmtrain", kPageBeginning, "report.html"}, options.to);
  std::vector<RunFiles> files;
  std::vector<fs::path> paths;
  for (const RunFolder& run : folders) {
    files.push_back({run.path(), run.config(), run.status(), run.metrics(), run.events()});
    paths.push_back(run.path());
  }
  std::vector<RunRecord> runs = read_run_records(files, most_buckets(files.size()));
  const std::vector<std::string> labels = run_labels(paths);
  for (size_t i = 0; i < runs.size(); ++i) {
    runs[i].label = labels[i];
    runs[i].num_parameters = parameters_of(folders[i]);
    for (const std::string& note : runs[i].notes) log_warning(str(paths[i].string(), ": ", note));
  }
  const std::string page = report_page(runs);
  const fs::path to = absolute_path(options.to);
  replace_file_of_user(to, page);
  log_note(str("report of ", counted(static_cast<int64_t>(runs.size()), "run"), ", ",
               format_bytes(page.size())));
  std::cout << to.string() << std::endl;
  return 0;
}

}  // namespace

void add_report_command(CLI::App& app, Action& action) {
  auto options = std::make_shared<ReportArguments>();
  CLI::App* command =
      app.add_subcommand("report", "Write one HTML page that shows runs side by side");
  command->add_option("run_dir", options->run_dirs, "Folders of the runs")
      ->required()
      ->type_name("RUN_DIR")
      ->check(not_empty());
  command
      ->add_option("--to", options->to,
                   "The page; it needs no other file and no network. A page there is replaced")
      ->type_name("FILE")
      ->check(not_empty())
      ->capture_default_str();
  command->callback([options, &action] { action = [options] { return write_report(*options); }; });
}

}  // namespace lmtrain
