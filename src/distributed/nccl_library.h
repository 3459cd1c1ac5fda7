// Loads the library through which processes on GPUs exchange tensors.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>

#include "distributed/nccl_calls.h"

namespace lmtrain {

// Which library is loaded, and for which tensors. Tests give a stand-in.
struct NcclLibrary {
  std::string file = "liblmtrain_nccl.so";  // a path, or a name that is found beside the program
  at::DeviceType device = at::kCUDA;
  bool is_wanted = true;  // parallel.nccl
};

// Returns the functions of the library, or null and in `problem` why they cannot be had. A file is
// loaded once; it is never unloaded.
const nccl::Calls* load_nccl(const std::string& file, std::string& problem);

}  // namespace lmtrain
