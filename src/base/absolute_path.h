// The one way to make a path absolute.
#pragma once

#include <filesystem>
#include <system_error>
#include <utility>

namespace lmtrain {

// Returns the absolute path of `path` without "." and "..": one string for all ways to write the
// path. The names of links stay. The exception is a link before a "..": there the result names the
// folder to which the link leads, as the system does. Nothing need be at the path.
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
