// Patterns of paths: below a small tree, and a component against a name, both after a line "%%".
#include "text/glob.h"

#include "fuzz/target.h"
#include "text/splits.h"

namespace lmtrain::fuzzing {

LMTRAIN_FUZZ_TARGET(glob) {
  namespace fs = std::filesystem;
  static const fs::path tree = [] {
    fs::create_directories(scratch_folder() / "tree/a/b");
    fs::create_directories(scratch_folder() / "tree/.hidden");
    for (const char* name : {"tree/x.txt", "tree/a/train-00000-of-00002.jsonl", "tree/a/b/[y].txt",
                             "tree/.hidden/z", "tree/a/b/\xC3\xA9"})
      write_scratch(name, "x");
    fs::create_directory_symlink(scratch_folder() / "tree", scratch_folder() / "tree/a/loop");
    return scratch_folder() / "tree";
  }();
  const std::vector<std::string> parts = parts_of(input, 2);
  (void)matches_component(parts[0], parts[1]);
  // What lies elsewhere is not for a fuzzer to walk.
  if (parts[0].find("..") != std::string::npos || parts[0].find('\0') != std::string::npos) return;
  accepts([&] {
    const std::vector<fs::path> files = find_files((tree / "").string() + parts[0]);
    require(files.size() <= 16, "more files than there are");
    for (const fs::path& file : files) require(fs::is_regular_file(file), "no file");
    (void)select_split(tree, files, Role::kTrain);
    (void)mixed_splits(tree, files);
  });
}

}  // namespace lmtrain::fuzzing
