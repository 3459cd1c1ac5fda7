#include "checkpoint/run_lock.h"

#include <fcntl.h>
#include <sys/file.h>

#include <cerrno>

namespace lmtrain {

bool RunLock::try_acquire(const std::filesystem::path& folder) {
  auto opened =
      std::make_unique<Descriptor>(open_any(folder, O_RDONLY | O_DIRECTORY, "open the folder"));
  // Any other refusal is that of a file system that locks no folders.
  if (::flock(opened->get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) return false;
  if (!file_.try_acquire(folder / ".lock")) return false;
  folder_ = std::move(opened);
  return true;
}

}  // namespace lmtrain
