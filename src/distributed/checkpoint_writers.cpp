#include "distributed/checkpoint_writers.h"

#include <system_error>

#include "base/error.h"
#include "base/file.h"
#include "base/file_chunks.h"

namespace lmtrain {
namespace {

namespace fs = std::filesystem;

// Returns the path of a file that all processes may write; empty if it cannot be made.
std::string make_file(const fs::path& trial, int count) {
  fs::path folder;
  try {
    folder = fs::absolute(trial);
    lmtrain::create_directories(folder);
    create_joint_file(folder / "joint", count);
    return (folder / "joint").string();
  } catch (const std::exception&) {  // the save itself will say what is wrong
    std::error_code ignored;
    if (!folder.empty()) fs::remove_all(folder, ignored);
    return "";
  }
}

bool have_kept_apart(const std::string& file, const std::vector<int>& writers, int count) {
  bool apart = false;
  try {
    apart = holds_writes(file, writers, count);
  } catch (const Error&) {  // like a file that does not hold them
  }
  std::error_code ignored;  // what stays is removed by the next start
  fs::remove_all(fs::path(file).parent_path(), ignored);
  return apart;
}

}  // namespace

CheckpointWriters CheckpointWriters::find(Processes& processes, const fs::path& trial) {
  const int rank = processes.rank(), count = processes.count();
  const std::string file = processes.broadcast(processes.is_first() ? make_file(trial, count) : "");
  if (file.empty()) return {};
  const bool mine = write_in_joint_file(file, rank, count);
  const std::vector<double> all = processes.all_gather_values({mine ? 1.0 : 0.0});
  std::vector<bool> writes;
  std::vector<int> ranks;
  for (int other = 0; other < count; ++other) {
    writes.push_back(all[static_cast<size_t>(other)] != 0);
    if (writes.back()) ranks.push_back(other);
  }
  const bool apart = processes.is_first() && have_kept_apart(file, ranks, count) && mine;
  if (processes.broadcast(std::string(apart ? "apart" : "")).empty()) return {};
  return CheckpointWriters(std::move(writes));
}

bool CheckpointWriters::writes(int rank) const {
  const auto index = static_cast<size_t>(rank);
  return rank == 0 || (index < writes_.size() && writes_[index]);
}

std::vector<int> CheckpointWriters::others() const {
  std::vector<int> ranks;
  for (size_t rank = 1; rank < writes_.size(); ++rank) {
    if (writes_[rank]) ranks.push_back(static_cast<int>(rank));
  }
  return ranks;
}

}  // namespace lmtrain
