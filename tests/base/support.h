// What tests of files share: a folder that is gone afterwards, a root of a file system, the Error
// of a call, a child process.
#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <string_view>

#include "base/error.h"
#include "base/file.h"
#include "base/temporary_folder.h"

namespace lmtrain::testing {

using lmtrain::TemporaryFolder;

// Puts bytes where a file may be, without the syncing that makes thousands of files slow.
inline void replace_file(const std::filesystem::path& path, std::string_view bytes) {
  std::filesystem::remove(path);
  FileWriter(path).write(bytes);
}

// A root of a file system with only what is written there.
class FileSystemRoot {
 public:
  void write(const std::string& path, const std::string& text) {
    const std::filesystem::path file = folder_ / path;
    std::filesystem::create_directories(file.parent_path());
    replace_file(file, text);
  }
  std::filesystem::path folder() const { return folder_ / ""; }

 private:
  TemporaryFolder folder_;
};

// Runs `action`, which must throw Error of `kind`; returns its message.
template <class Action>
std::string error_of(ErrorKind kind, Action&& action) {
  try {
    action();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), kind) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "no error was thrown";
  return "";
}

// Runs `action` in a child process; returns what waitpid says. The child never returns from here:
// it exits with what `action` returns, or 99 after an exception.
template <class Action>
int in_child(Action&& action) {
  const pid_t child = ::fork();
  if (child == 0) {
    int code = 99;
    try {
      code = action();
    } catch (...) {  // the code says it
    }
    ::_exit(code);
  }
  int status = -1;
  ::waitpid(child, &status, 0);
  return status;
}

template <class Action>
int exit_code_of(Action&& action) {
  const int status = in_child(action);
  EXPECT_TRUE(WIFEXITED(status)) << "status " << status;
  return WEXITSTATUS(status);
}

}  // namespace lmtrain::testing
