#include "base/link.h"

#include <sys/stat.h>

#include <cerrno>

#include "base/open_file.h"
#include "base/retry.h"

namespace lmtrain {

bool is_link(const std::filesystem::path& path) {
  struct stat info {};
  Retry retry;
  while (::lstat(path.c_str(), &info) != 0) {
    if (errno == ENOENT || errno == ENOTDIR) return false;
    if (!retry.again(errno)) fail_on_file("examine", path, errno);
  }
  return S_ISLNK(info.st_mode);
}

}  // namespace lmtrain
