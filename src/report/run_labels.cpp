#include "report/run_labels.h"

#include <algorithm>
#include <map>

#include "base/utf8.h"

namespace lmtrain {
namespace {

// The last `count` components, or all there are.
std::string last_components(const std::filesystem::path& folder, size_t count) {
  std::filesystem::path path = folder, label;
  for (size_t i = 0; i < count && path.has_filename(); ++i) {
    label = label.empty() ? path.filename() : path.filename() / label;
    path = path.parent_path();
  }
  return label.empty() ? folder.string() : label.string();
}

}  // namespace

std::vector<std::string> run_labels(const std::vector<std::filesystem::path>& folders) {
  std::vector<size_t> lengths(folders.size(), 1);
  std::vector<std::string> labels(folders.size());
  for (bool changed = true; changed;) {
    changed = false;
    std::map<std::string, int> uses;
    for (size_t i = 0; i < folders.size(); ++i) {
      labels[i] = last_components(folders[i], lengths[i]);
      ++uses[labels[i]];
    }
    for (size_t i = 0; i < folders.size(); ++i) {
      if (uses[labels[i]] < 2) continue;
      const std::string longer = last_components(folders[i], lengths[i] + 1);
      if (longer == labels[i]) continue;
      ++lengths[i];
      changed = true;
    }
  }
  for (std::string& label : labels) {
    std::string valid;
    append_replacing_malformed(valid, label);
    label = valid;
  }
  return labels;
}

}  // namespace lmtrain
