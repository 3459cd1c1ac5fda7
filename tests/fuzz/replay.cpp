// Calls a target for each file of a folder, seeds and former findings:
//   replay TARGET FOLDER     exit status 0 when none of them is a finding
//   replay                   prints the names of the targets
#include <cstdio>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "fuzz/target.h"

int main(int argc, char** argv) {
  using namespace lmtrain::fuzzing;
  if (argc < 3) {
    for (const std::string& name : target_names()) std::printf("%s\n", name.c_str());
    return argc == 1 ? 0 : 2;
  }
  const Target target = find_target(argv[1]);
  require(target != nullptr, "there is no such target");
  int count = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(argv[2])) {
    if (!entry.is_regular_file()) continue;
    std::ifstream file(entry.path(), std::ios::binary);
    const std::string bytes{std::istreambuf_iterator<char>(file), {}};
    std::fprintf(stderr, "%s\n", entry.path().c_str());  // a crash is that of the last one
    try {
      target(bytes);
    } catch (const std::exception& error) {
      require(false, error.what());
    }
    ++count;
  }
  require(count > 0, "the folder has no file");
  std::printf("%d inputs\n", count);
}
