// Loads the library through which processes on GPUs exchange tensors.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>

#include "distributed/nccl_calls.h"

namespace lmtrain {

// Says which library is loaded, and which tensors it exchanges. Tests load a stand-in.
struct NcclLibrary {
  std::string file = "liblmtrain_nccl.so";  // a path, or a name that is found beside the program
  at::DeviceType device = at::kCUDA;        // the tensors on such devices
  bool is_wanted = true;                    // parallel.nccl
  // Whether reduce_scatter() adds in the order of a tree or a ring, as in host memory; otherwise in
  // NCCL's own order, which is faster.
  bool keeps_order = true;
};

// Loads the library once, for good, and returns its functions. If that fails, returns null and
// writes the reason into `problem`.
const nccl::Calls* load_nccl(const std::string& file, std::string& problem);

}  // namespace lmtrain
