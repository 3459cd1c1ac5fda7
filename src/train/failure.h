// The meaning of an exception for the person in front of the program: its kind, which decides the
// exit code, and a message. libtorch, the standard library, cuBLAS and cuDNN have their own ways to
// say that memory ran out.
#pragma once

#include <exception>
#include <string>

#include "base/error.h"

namespace lmtrain {

struct Failure {
  ErrorKind kind = ErrorKind::kInternal;
  std::string message;
  std::string cause;  // the message without its advice
};

Failure describe_failure(const std::exception& error);

// Whether cuDNN's frontend, which computes attention on a GPU, has refused the shape or the work:
// "cuDNN Frontend error: [cudnn_frontend] Error: No execution plans support the graph." False where
// it ran out of memory.
bool is_refused_by_cudnn(const std::exception& error);

}  // namespace lmtrain
