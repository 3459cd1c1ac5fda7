#include "e2e/faults/damage.h"

#include <algorithm>
#include <vector>

#include "base/support.h"
#include "e2e/workspace.h"

namespace lmtrain::testing {
namespace {

namespace fs = std::filesystem;

// In an order that does not depend on the file system.
std::vector<fs::path> files_below(const std::vector<fs::path>& folders) {
  std::vector<fs::path> files;
  for (const fs::path& folder : folders) {
    for (const auto& entry : fs::recursive_directory_iterator(folder))
      if (entry.is_regular_file()) files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

size_t below(size_t end, std::mt19937_64& random) { return end == 0 ? 0 : random() % end; }

// Another file with the same name, or in the same folder; the file itself where there is none.
fs::path another(const fs::path& file, const std::vector<fs::path>& files, bool same_name,
                 std::mt19937_64& random) {
  std::vector<fs::path> others;
  for (const fs::path& other : files) {
    const bool fits =
        same_name ? other.filename() == file.filename() : other.parent_path() == file.parent_path();
    if (fits && other != file) others.push_back(other);
  }
  return others.empty() ? file : others[below(others.size(), random)];
}

}  // namespace

DamageDone damage_a_file(const std::vector<fs::path>& folders, std::mt19937_64& random) {
  const std::vector<fs::path> files = files_below(folders);
  DamageDone done;
  done.file = files[below(files.size(), random)];
  done.kind = static_cast<DamageKind>(below(kDamageNames.size(), random));
  const std::string before = read_text(done.file);
  std::string after = before;
  const size_t at = below(before.size(), random);
  switch (done.kind) {
    case DamageKind::kFlip:
      if (!after.empty()) after[at] = static_cast<char>(after[at] ^ (1 << below(8, random)));
      done.detail = "a bit of byte " + std::to_string(at);
      break;
    case DamageKind::kCut:
      after.resize(at);
      done.detail = "to " + std::to_string(at) + " bytes";
      break;
    case DamageKind::kDelete:
      fs::remove(done.file);
      done.changed = true;
      return done;
    case DamageKind::kSwap:
      done.other = another(done.file, files, /*same_name=*/false, random);
      after = read_text(done.other);
      replace_file(done.other, before);
      done.detail = "with " + done.other.string();
      break;
    case DamageKind::kZeros: {
      const size_t count = std::min(before.size() - at, size_t{1} << below(13, random));
      after.replace(at, count, count, '\0');
      done.detail = std::to_string(count) + " bytes from byte " + std::to_string(at);
      break;
    }
    case DamageKind::kAppend:
      after += before.substr(at, 1 + below(100, random)) + "\n";
      break;
    case DamageKind::kForeign:
      done.other = another(done.file, files, /*same_name=*/true, random);
      after = read_text(done.other);
      done.detail = "from " + done.other.string();
      break;
  }
  done.changed = after != before;
  replace_file(done.file, after);
  return done;
}

}  // namespace lmtrain::testing
