#include "fuzz/target.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>

namespace lmtrain::fuzzing {
namespace {

namespace fs = std::filesystem;

constexpr int kScratchDescriptor = 200;

std::map<std::string, Target, std::less<>>& all_targets() {
  static std::map<std::string, Target, std::less<>> targets;
  return targets;
}

class Scratch {
 public:
  Scratch() {
    const fs::path parent = fs::is_directory("/dev/shm") ? "/dev/shm" : fs::temp_directory_path();
    path_ = parent / ("lmtrain_fuzz_" + std::to_string(::getpid()));
    fs::remove_all(path_);
    fs::create_directories(path_);
    const int folder = ::open(path_.c_str(), O_PATH | O_DIRECTORY);
    require(::dup2(folder, kScratchDescriptor) == kScratchDescriptor, "no descriptor");
    ::close(folder);
  }
  ~Scratch() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

}  // namespace

Registration::Registration(const char* name, Target target) { all_targets()[name] = target; }

Target find_target(std::string_view name) {
  const auto found = all_targets().find(name);
  return found == all_targets().end() ? nullptr : found->second;
}

std::vector<std::string> target_names() {
  std::vector<std::string> names;
  for (const auto& [name, target] : all_targets()) names.push_back(name);
  return names;
}

void require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "finding: %s\n", what);
  std::abort();
}

void note_refusal(const Error& error) {
  static const bool is_wanted = std::getenv("LMTRAIN_FUZZ_VERBOSE") != nullptr;
  if (is_wanted) std::fprintf(stderr, "refused: %s\n", error.what());
}

const fs::path& scratch_folder() {
  static const Scratch scratch;
  return scratch.path();
}

fs::path write_scratch(const fs::path& name, std::string_view bytes) {
  const fs::path path = scratch_folder() / name;
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  file.close();
  require(!file.fail(), "the scratch folder takes no file");
  return path;
}

std::vector<std::string> parts_of(std::string_view input, size_t most) {
  constexpr std::string_view kCut = "\n%%\n";
  std::vector<std::string> parts;
  while (parts.size() + 1 < most) {
    const size_t end = input.find(kCut);
    if (end == std::string_view::npos) break;
    parts.emplace_back(input.substr(0, end));
    input.remove_prefix(end + kCut.size());
  }
  parts.emplace_back(input);
  parts.resize(most);
  return parts;
}

}  // namespace lmtrain::fuzzing
