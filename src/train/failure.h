// What an exception means for the person in front of the program: its kind, which decides the exit
// code, and a message. libtorch and the standard library have their own ways to say that memory ran
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
};

Failure describe_failure(const std::exception& error);

}  // namespace lmtrain
