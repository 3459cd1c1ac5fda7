// Opens descriptors 0, 1 and 2 before any other. A daemon, or a shell's `2>&-`, may start the
// program with one of them closed. The next file that is opened would get this number, and text for
// descriptor 2 would go into a checkpoint.
//
// This runs before main() and before the libraries are initialised, as these may open files too.
#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace {

// Keeps to system calls, since the C library is not initialised yet.
void open_standard_files(int /*argc*/, char** /*argv*/, char** /*variables*/) {
  for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; ++fd) {
    if (::syscall(SYS_fcntl, fd, F_GETFD) >= 0) continue;
    // The numbers below are taken, so `fd` is the one that the next file gets.
    if (::syscall(SYS_openat, AT_FDCWD, "/dev/null", O_RDWR) >= 0) continue;
    // Without /dev/null it takes a descriptor that can be neither read nor written.
    ::syscall(SYS_openat, AT_FDCWD, "/", O_PATH);
  }
}

__attribute__((section(".preinit_array"),
               used)) void (*const kBeforeAll)(int, char**, char**) = open_standard_files;

}  // namespace
