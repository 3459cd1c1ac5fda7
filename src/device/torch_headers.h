// These headers of libtorch are precompiled once (src/CMakeLists.txt) for the folders above this
// one, which include them.
#pragma once

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/csrc/jit/api/compilation_unit.h>
#include <torch/csrc/jit/api/function_impl.h>
#include <torch/library.h>

#include <algorithm>
#include <array>
#include <numeric>
