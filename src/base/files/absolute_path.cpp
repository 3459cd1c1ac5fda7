#include "base/files/absolute_path.h"

#include <system_error>
#include <utility>

namespace lmtrain {

namespace fs = std::filesystem;

fs::path absolute_path(const fs::path& path) {
  const fs::path whole = fs::absolute(path);
  fs::path head, tail;  // up to the last "..", and behind it
  for (const fs::path& part : whole) {
    tail /= part;
    if (part == "..") head /= std::exchange(tail, {});
  }
  std::error_code error;
  const fs::path shorter = head.lexically_normal();
  if (head.empty() || fs::equivalent(head, shorter, error)) return whole.lexically_normal();
  const fs::path resolved = fs::canonical(head, error);
  return ((error ? shorter : resolved) / tail).lexically_normal();
}

}  // namespace lmtrain
