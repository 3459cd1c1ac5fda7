#include "distributed/nccl_library.h"

#include <dlfcn.h>

#include "base/text.h"

namespace lmtrain {

const nccl::Calls* load_nccl(const std::string& file, std::string& problem) {
  // libnccl.so.2 is the one that libtorch_cuda.so has loaded before, where it has.
  void* const library = ::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* why = ::dlerror();
    problem = str("the library does not load: ", why == nullptr ? file : why);
    return nullptr;
  }
  using GetCalls = const nccl::Calls* (*)();
  const auto get = reinterpret_cast<GetCalls>(::dlsym(library, nccl::kCallsSymbol));
  const nccl::Calls* calls = get == nullptr ? nullptr : get();
  if (calls == nullptr || calls->revision != nccl::kRevision) {
    problem = str(file, " is not of this lmtrain; build or install both together");
    return nullptr;
  }
  return calls;
}

}  // namespace lmtrain
