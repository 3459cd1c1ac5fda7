// Forks the program for each command that it is sent, just before main: what linking and the
// constructors of its libraries take is paid once. There are no threads yet, so each fork is as a
// program newly started. The library stands in front of __libc_start_main for it, where
//
//   LMTRAIN_FORK_SERVER   a descriptor of a socket (SOCK_SEQPACKET)
//
// is given. A request is a message of texts, a zero byte after each: the number of settings of the
// environment, the folder to run in, the settings, each NAME=VALUE, and the words of the command.
// Two descriptors come with it, which become its standard output and error. The answer is the
// process id, one int. The new process is a child of the subreaper that has started the server.
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "e2e/fork_library/hooks.h"

namespace lmtrain::forks {
namespace {

using Main = int (*)(int, char**, char**);

Main program = nullptr;

struct Request {
  std::string text;
  std::array<int, 2> files{-1, -1};
};

// False when whoever asks has ended.
bool receive(int socket, Request& request) {
  request.text.resize(1 << 18);
  iovec part{request.text.data(), request.text.size()};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof request.files)> beside{};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = beside.data();
  message.msg_controllen = beside.size();
  const ssize_t size = ::recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
  if (size <= 0) return false;
  request.text.resize(static_cast<size_t>(size));
  std::memcpy(request.files.data(), CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof request.files);
  return true;
}

// Runs the program in this process as the request has it; its exit code.
int run(const Request& request) {
  // The program keeps pointers to them until its last destructor.
  auto& texts = *new std::vector<std::string>;
  for (size_t begin = 0; begin < request.text.size(); begin += texts.back().size() + 1)
    texts.emplace_back(request.text.c_str() + begin);
  const size_t settings = std::stoul(texts[0]);
  auto& variables = *new std::vector<char*>;
  auto& words = *new std::vector<char*>;
  for (size_t i = 2; i < texts.size(); ++i)
    (i < 2 + settings ? variables : words).push_back(texts[i].data());
  const int count = static_cast<int>(words.size());
  variables.push_back(nullptr);
  words.push_back(nullptr);
  environ = variables.data();
  ::dup2(::open("/dev/null", O_RDONLY), STDIN_FILENO);
  ::dup2(request.files[0], STDOUT_FILENO);
  ::dup2(request.files[1], STDERR_FILENO);
  ::close_range(3, ~0U, 0);
  std::signal(SIGHUP, SIG_DFL);
  const rlimit none{0, 0};
  ::setrlimit(RLIMIT_CORE, &none);
  if (::chdir(texts[1].c_str()) != 0) ::_exit(127);
  if (lmtrain_before_main != nullptr) lmtrain_before_main();
  const int code = program(count, words.data(), environ);
  if (lmtrain_after_main != nullptr) lmtrain_after_main(code);
  return code;
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
  const int socket = std::atoi(std::getenv("LMTRAIN_FORK_SERVER"));
  // A terminal or a pipe of the test ends when nobody has its other end.
  ::close_range(3, static_cast<unsigned>(socket) - 1, 0);
  ::close_range(static_cast<unsigned>(socket) + 1, ~0U, 0);
  fill_operator_table();
  for (Request request; receive(socket, request);) {
    std::array<int, 2> ends{-1, -1};
    if (::pipe(ends.data()) != 0) return 1;
    const pid_t between = ::fork();  // when it has ended, the subreaper is the child's parent
    if (between == 0) {
      const pid_t child = ::fork();
      if (child == 0) return run(request);
      ::_exit(::write(ends[1], &child, sizeof child) == sizeof child ? 0 : 1);
    }
    for (const int file : request.files) ::close(file);
    ::close(ends[1]);
    pid_t child = -1;
    const bool started = ::read(ends[0], &child, sizeof child) == sizeof child;
    ::close(ends[0]);
    if (!started || ::waitpid(between, nullptr, 0) < 0) return 1;
    if (::send(socket, &child, sizeof child, MSG_NOSIGNAL) < 0) return 1;
  }
  ::_exit(0);
}

}  // namespace
}  // namespace lmtrain::forks

// NOLINTBEGIN: the C library's name and signature.
extern "C" int __libc_start_main(int (*main)(int, char**, char**), int argc, char** argv,
                                 void (*init)(), void (*fini)(), void (*unload)(), void* stack) {
  using namespace lmtrain::forks;
  using Start = int (*)(Main, int, char**, void (*)(), void (*)(), void (*)(), void*);
  program = main;
  const bool serves = std::getenv("LMTRAIN_FORK_SERVER") != nullptr;
  return reinterpret_cast<Start>(::dlsym(RTLD_NEXT, "__libc_start_main"))(
      serves ? serve : main, argc, argv, init, fini, unload, stack);
}
// NOLINTEND
