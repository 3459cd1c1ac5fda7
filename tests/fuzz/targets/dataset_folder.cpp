// The files by which `datasets` describes a folder: state.json, then dataset_dict.json.
#include "text/dataset_folder.h"

#include "fuzz/target.h"

namespace lmtrain::fuzzing {

LMTRAIN_FUZZ_TARGET(dataset_folder) {
  namespace fs = std::filesystem;
  static const fs::path root = [] {
    fs::create_directories(scratch_folder() / "saved/train");
    write_scratch("saved/train/data-00000-of-00001.arrow", "x");
    return scratch_folder() / "saved";
  }();
  const std::vector<std::string> parts = parts_of(input, 2);
  write_scratch("saved/train/state.json", parts[0]);
  write_scratch("saved/dataset_dict.json", parts[1]);
  const std::vector<fs::path> found = {root / "dataset_dict.json", root / "train/state.json",
                                       root / "train/data-00000-of-00001.arrow"};
  for (const fs::path& folder : {root, root / "train"}) {
    for (const Role role : {Role::kTrain, Role::kHeldOut}) {
      accepts([&] {
        const auto files = documents_of(folder, found, "", DataFormat::kAuto, role, "data.train");
        for (const fs::path& file : files)
          require(file.native().starts_with(root.native()), "a file outside the folder");
      });
    }
  }
}

}  // namespace lmtrain::fuzzing
