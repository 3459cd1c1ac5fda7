// Error is the one exception type that lmtrain throws for a failure.
//
// A message says what happened, where (file:line, JSON pointer, tensor, byte offset) and what to do
// about it, and needs no further context: it is printed as it is. The kind decides the exit code.
#pragma once

#include <stdexcept>
#include <string>

namespace lmtrain {

enum class ErrorKind {
  kUsage,       // wrong command line, or a path typed that does not exist
  kConfig,      // a setting that is unknown, malformed, out of range or contradictory
  kData,        // a corpus, tokenizer or model folder that is present but bad
  kCheckpoint,  // a checkpoint or run folder that is present but bad
  kNumeric,     // diverged, non-finite
  kIo,          // the operating system refused: permission, disk full
  kMemory,      // out of memory on host or device
  kInternal,    // a bug of ours
};

// Returns the process's exit code for a failure of this kind (docs/cli.md). Other exit codes are 0
// (done), kExitMaxTime (stopped by train.max_time) and 128+n (stopped by signal n).
constexpr int exit_code(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::kUsage:
    case ErrorKind::kConfig:
      return 2;
    case ErrorKind::kData:
    case ErrorKind::kCheckpoint:
      return 3;
    case ErrorKind::kNumeric:
      return 4;
    case ErrorKind::kIo:
      return 5;
    case ErrorKind::kMemory:
      return 6;
    case ErrorKind::kInternal:
      break;
  }
  return 70;
}
inline constexpr int kExitMaxTime = 75;

class Error : public std::runtime_error {
 public:
  Error(ErrorKind kind, const std::string& message) : std::runtime_error(message), kind_(kind) {}
  ErrorKind kind() const { return kind_; }

 private:
  ErrorKind kind_;
};

// ProcessLost ends this process because another process of the run has ended. exit_code() is the
// exit code of the process that ended first; 5 where that is not known.
class ProcessLost : public Error {
 public:
  ProcessLost(int exit_code, const std::string& message)
      : Error(ErrorKind::kIo, message), exit_code_(exit_code) {}
  int exit_code() const { return exit_code_; }

 private:
  int exit_code_;
};

}  // namespace lmtrain
