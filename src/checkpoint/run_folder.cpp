#include "checkpoint/run_folder.h"

#include <fcntl.h>
#include <sys/file.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/examine.h"
#include "base/file.h"
#include "base/text.h"
#include "formats/manifest.h"
#include "formats/strict_json.h"

namespace lmtrain {
namespace {

constexpr std::string_view kStepPrefix = "step_";
constexpr std::string_view kUnfinishedPrefix = ".tmp-";

}  // namespace

nlohmann::ordered_json identity_json(const RunIdentity& identity) {
  nlohmann::ordered_json json = {{"run", identity.id}, {"branch_of", nullptr}};
  if (const std::optional<BranchPoint>& point = identity.branch_of) {
    json["branch_of"] = {
        {"run", point->run}, {"run_dir", point->run_dir.string()}, {"step", point->step}};
  }
  json["init_from"] = identity.init_from;
  return json;
}

RunIdentity identity_in(const nlohmann::json& config) {
  RunIdentity identity;
  try {
    const nlohmann::json& json = config.at(kIdentityKey);
    identity.id = json.at("run").get<std::string>();
    if (const nlohmann::json& point = json.at("branch_of"); !point.is_null()) {
      identity.branch_of = {point.at("run").get<std::string>(),
                            point.at("run_dir").get<std::string>(),
                            integer_in<int64_t>(point.at("step"))};
    }
    identity.init_from = json.at("init_from").get<std::string>();
    return identity;
  } catch (const nlohmann::json::exception&) {
    return {};
  }
}

bool RunLock::try_acquire(const std::filesystem::path& folder) {
  auto opened =
      std::make_unique<Descriptor>(open_any(folder, O_RDONLY | O_DIRECTORY, "open the folder"));
  // Any other failure comes from a file system that cannot lock folders.
  if (::flock(opened->get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) return false;
  if (!file_.try_acquire(folder / ".lock")) return false;
  folder_ = std::move(opened);
  return true;
}

std::string step_name(int64_t step) {
  std::string digits = std::to_string(step);
  if (digits.size() < 8) digits.insert(0, 8 - digits.size(), '0');
  return str(kStepPrefix, digits);
}

std::filesystem::path RunFolder::checkpoint(int64_t step) const {
  return checkpoints() / step_name(step);
}

std::filesystem::path RunFolder::unfinished_checkpoint(int64_t step,
                                                       const std::string& attempt) const {
  return checkpoints() /
         str(kUnfinishedPrefix, step_name(step), attempt.empty() ? "" : "-", attempt);
}

void RunFolder::require_there() const {
  if (is_folder(path_)) return;
  throw Error(ErrorKind::kIo, str("the run folder ", path_.string(),
                                  " is gone: it was deleted or moved while the run was trained"));
}

std::vector<int64_t> RunFolder::checkpoint_steps() const {
  std::vector<int64_t> steps;
  for (const std::string& name : list_folder_if_there(checkpoints())) {
    if (!name.starts_with(kStepPrefix)) continue;
    int64_t step = 0;
    const char* end = name.data() + name.size();
    const auto [stop, error] = std::from_chars(name.data() + kStepPrefix.size(), end, step);
    if (error == std::errc() && stop == end && name == step_name(step)) steps.push_back(step);
  }
  std::sort(steps.rbegin(), steps.rend());
  return steps;
}

void RunFolder::remove_unfinished() const {
  for (const std::string& name : list_folder_if_there(checkpoints())) {
    if (name.starts_with(kUnfinishedPrefix)) remove_tree(checkpoints() / name);
  }
}

RunLock RunFolder::lock() const {
  lmtrain::create_directories(path_);
  RunLock lock;
  if (!lock.try_acquire(path_)) {
    throw Error(ErrorKind::kUsage,
                str("the run in ", path_.string(),
                    " is locked by another lmtrain process; wait for it to end or stop it first"));
  }
  put_back_replaced();
  return lock;
}

void require_no_checkpoint_path(const std::filesystem::path& path) {
  const std::filesystem::path whole = absolute_path(without_final_slash(path));
  const std::string name = whole.filename().string();
  const RunFolder run(whole.parent_path().parent_path());
  const bool is_taken = name.starts_with(kStepPrefix) || name.starts_with(kUnfinishedPrefix);
  if (!is_taken || whole.parent_path() != run.checkpoints() || !run.holds_run()) return;
  throw Error(ErrorKind::kUsage,
              str(shown(whole), " has the name of a checkpoint of the run ", shown(run.path()),
                  ", which may replace or remove it; give another path"));
}

bool is_checkpoint_folder(const std::filesystem::path& folder) {
  return is_there(folder / kManifestFile) || is_there(folder / kStateFile) ||
         is_there(folder / kOptimizerFile);
}

}  // namespace lmtrain
