#include "cli/unexpected_end.h"

#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <exception>
#include <new>
#include <string>
#include <string_view>
#include <system_error>

#include "base/error.h"
#include "base/text.h"

namespace lmtrain {
namespace {

std::atomic<bool> g_exit_is_expected = false;

// Memory may be out, and any lock may be held, so this makes only a system call.
void say(std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(STDERR_FILENO, text.data(), text.size());
    if (written <= 0) return;
    text.remove_prefix(static_cast<size_t>(written));
  }
}

[[noreturn]] void end_for_lack_of_memory(std::string_view what) {
  for (const std::string_view part :
       {std::string_view("lmtrain: out of memory or threads: "), what,
        std::string_view("; raise the limit on address space (ulimit -v) or threads (ulimit -u), "
                         "or lower threads\n")})
    say(part);
  ::_exit(exit_code(ErrorKind::kMemory));
}

[[noreturn]] void on_uncaught() {
  try {
    if (const std::exception_ptr error = std::current_exception()) std::rethrow_exception(error);
    say("lmtrain: internal error: std::terminate without an exception; please report it\n");
  } catch (const std::bad_alloc& error) {
    end_for_lack_of_memory(error.what());
  } catch (const std::system_error& error) {
    end_for_lack_of_memory(error.what());
  } catch (const std::exception& error) {
    const std::string what = shown(error.what(), /*keeps_lines=*/true);
    for (const std::string_view part :
         {std::string_view("lmtrain: internal error: "), std::string_view(what),
          std::string_view("; please report it\n")})
      say(part);
  } catch (...) {
    say("lmtrain: internal error: an exception of an unknown type; please report it\n");
  }
  ::_exit(exit_code(ErrorKind::kInternal));
}

// Runs before destructors of static objects, which could wait for threads that never come.
void on_exit() {
  if (!g_exit_is_expected) end_for_lack_of_memory("a library ended the program");
}

// Before the libraries are initialised: they allocate, and without a current folder one of them
// ends the program.
void install_before_main(int /*argc*/, char** /*argv*/, char** /*variables*/) {
  std::set_terminate(on_uncaught);
  std::array<char, 4096> folder;
  if (::getcwd(folder.data(), folder.size()) == nullptr && errno == ENOENT) {
    say("lmtrain: the current folder was removed; cd to another one\n");
    ::_exit(exit_code(ErrorKind::kUsage));
  }
}

__attribute__((section(".preinit_array"),
               used)) void (*const kBeforeAll)(int, char**, char**) = install_before_main;

}  // namespace

void report_unexpected_exits() { std::atexit(on_exit); }

void expect_exit() { g_exit_is_expected = true; }

}  // namespace lmtrain
