// Forks the program for each command that it is sent, just before main: what linking and the
// constructors of its libraries take is paid once. There are no threads yet, so each fork is as a
// program newly started. The library stands in front of __libc_start_main for it, where
//
//   LMTRAIN_FAULT_SERVER   a descriptor of a socket (SOCK_SEQPACKET)
//
// is given. A request is a message of texts, a zero byte after each: settings NAME=VALUE for the
// environment, an empty text, and the words of the command. The files LMTRAIN_FAULT_OUT and
// LMTRAIN_FAULT_ERR of the settings become its standard output and error. The answers are the
// child's process id and, once it has ended, its wait status; each a message of one int.
#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "e2e/fault_library/descriptors.h"
#include "e2e/fault_library/faults.h"

namespace lmtrain::faults {
namespace {

using Main = int (*)(int, char**, char**);

Main program = nullptr;

void redirect(const char* variable, int descriptor) {
  const char* path = std::getenv(variable);
  if (path == nullptr) return;
  const Own own;
  const int fd = ::open(path, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0644);
  if (fd < 0 || ::dup2(fd, descriptor) < 0) ::_exit(127);
  ::close(fd);
}

// Ends as the program does, but for the destructors of its libraries, which touch no file and take
// longer than all else.
[[noreturn]] void run_request(const std::string& request) {
  static std::vector<std::string> texts;  // main may keep pointers to them
  for (size_t begin = 0; begin < request.size(); begin += texts.back().size() + 1)
    texts.emplace_back(request.c_str() + begin);
  auto text = texts.begin();
  for (; text != texts.end() && !text->empty(); ++text) {
    const size_t equals = text->find('=');
    ::setenv(text->substr(0, equals).c_str(), text->c_str() + equals + 1, 1);
  }
  static std::vector<char*> words;
  for (++text; text != texts.end(); ++text) words.push_back(text->data());
  words.push_back(nullptr);
  redirect("LMTRAIN_FAULT_OUT", STDOUT_FILENO);
  redirect("LMTRAIN_FAULT_ERR", STDERR_FILENO);
  configure();
  const int code = program(static_cast<int>(words.size()) - 1, words.data(), environ);
  std::fflush(nullptr);
  end_of_program();
  ::_exit(code);
}

// libtorch fills its table of operators when one is first looked up, which takes as long as a tiny
// run. It depends on nothing and starts no thread.
void fill_operator_table() {
  using Find = const void* (*)(unsigned);  // torch::jit::getAllOperatorsFor(c10::Symbol)
  const auto find = reinterpret_cast<Find>(
      ::dlsym(RTLD_DEFAULT, "_ZN5torch3jit18getAllOperatorsForEN3c106SymbolE"));
  if (find != nullptr) find(0);
}

int serve(int, char**, char**) {
  fill_operator_table();
  const int socket = std::atoi(std::getenv("LMTRAIN_FAULT_SERVER"));
  std::string request;
  for (;;) {
    request.resize(1 << 16);
    const ssize_t size = ::recv(socket, request.data(), request.size(), 0);
    if (size <= 0) ::_exit(0);  // whoever asked has ended
    request.resize(static_cast<size_t>(size));
    const pid_t child = ::fork();
    if (child == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      ::close(socket);
      run_request(request);
    }
    int status = 0;
    if (::send(socket, &child, sizeof child, 0) < 0) ::_exit(1);
    if (::waitpid(child, &status, 0) < 0) ::_exit(1);
    if (::send(socket, &status, sizeof status, 0) < 0) ::_exit(1);
  }
}

}  // namespace
}  // namespace lmtrain::faults

// NOLINTBEGIN: the C library's name and signature.
extern "C" int __libc_start_main(int (*main)(int, char**, char**), int argc, char** argv,
                                 void (*init)(), void (*fini)(), void (*unload)(), void* stack) {
  using namespace lmtrain::faults;
  using Start = int (*)(Main, int, char**, void (*)(), void (*)(), void (*)(), void*);
  program = main;
  const bool serves = std::getenv("LMTRAIN_FAULT_SERVER") != nullptr;
  return next<Start>("__libc_start_main")(serves ? serve : main, argc, argv, init, fini, unload,
                                          stack);
}
// NOLINTEND
