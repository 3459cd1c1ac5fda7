// libFuzzer's entry. The variable LMTRAIN_FUZZ_TARGET names the target.
#include <cstdint>
#include <cstdio>
#include <cstdlib>

#include "fuzz/target.h"

namespace {

lmtrain::fuzzing::Target chosen = nullptr;

}  // namespace

extern "C" int LLVMFuzzerInitialize(int* /*argc*/, char*** /*argv*/) {
  const char* name = std::getenv("LMTRAIN_FUZZ_TARGET");
  chosen = lmtrain::fuzzing::find_target(name == nullptr ? "" : name);
  if (chosen != nullptr) return 0;
  std::fprintf(stderr, "LMTRAIN_FUZZ_TARGET must be one of:");
  for (const std::string& known : lmtrain::fuzzing::target_names())
    std::fprintf(stderr, " %s", known.c_str());
  std::fprintf(stderr, "\n");
  std::exit(2);
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  chosen({reinterpret_cast<const char*>(data), size});
  return 0;
}
