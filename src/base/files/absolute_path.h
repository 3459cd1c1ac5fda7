// The one way to make a path absolute.
#pragma once

#include <filesystem>
#include <system_error>
#include <utility>

namespace lmtrain {

// Returns the absolute path of `path`, without "." and "..", which is one string for all ways to
// write it. Links stay in it by their names, except before a ".." that leads out of the folder to
// which a link leads: there it names the folder itself, as the system does. The path may be
// missing.
inline std::filesystem::path absolute_path(const std::filesystem::path& path) {
  namespace fs = std::filesystem;
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
