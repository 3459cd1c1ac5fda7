// Says what an exception means to the user: a kind, which decides the exit code, and a message; and
// takes libtorch's warnings into the log.
// libtorch, the standard library, cuBLAS and cuDNN each report in their own way that memory ran
// out.
#pragma once

#include <exception>
#include <string>

#include "base/error.h"

namespace lmtrain {

struct Failure {
  ErrorKind kind = ErrorKind::kInternal;
  std::string message;
  std::string cause;  // the message without its advice
  int exit_code = lmtrain::exit_code(kind);
};

// An Error keeps its kind and message, but an Error(kInternal) that reports that memory ran out,
// from a GPU kernel, becomes kMemory with advice. Another exception becomes kMemory, kIo or, if not
// recognised, kInternal. The exit code follows from the kind; for ProcessLost it is
// ProcessLost::exit_code().
Failure describe_failure(const std::exception& error);

// Returns whether cuDNN's frontend, which computes attention on a GPU, has refused the shape or the
// work: "cuDNN Frontend error: [cudnn_frontend] Error: No execution plans support the graph." False
// where it ran out of memory.
bool is_refused_by_cudnn(const std::exception& error);

// From this call on, a warning of libtorch (TORCH_WARN) in this thread, or in a backward that it
// runs, is a warning of the log (base/log.h). Other threads print theirs through c10's own log.
void log_torch_warnings();

}  // namespace lmtrain
