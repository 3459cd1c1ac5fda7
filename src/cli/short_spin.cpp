// How long a thread that waits for the others of a parallel region spins before it sleeps: a fifth
// of a millisecond instead of libgomp's 300,000 turns, which are some ten milliseconds. A longer
// spin gains nothing on an idle machine. On a busy one it takes the processor from the very thread
// that is waited for.
//
// libgomp reads GOMP_SPINCOUNT when it is initialised, before main(). So the program is started
// once more, with that set, before anything else is initialised: this costs the time of linking,
// 15 ms. A GOMP_SPINCOUNT or OMP_WAIT_POLICY of the user is left as it is.
#include <elf.h>
#include <immintrin.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <cstring>

namespace {

constexpr int64_t kSpinNanoseconds = 200'000;
constexpr char kVariable[] = "GOMP_SPINCOUNT=";

int64_t nanoseconds() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1'000'000'000 + now.tv_nsec;
}

// A turn is a `pause`, which takes 10 to 150 cycles, by the processor's model.
int64_t turns_of_spin() {
  constexpr int kTrials = 8, kTurns = 64;
  int64_t least = kSpinNanoseconds;
  for (int trial = 0; trial < kTrials; ++trial) {
    const int64_t begin = nanoseconds();
    for (int turn = 0; turn < kTurns; ++turn) _mm_pause();
    least = std::min(least, nanoseconds() - begin);
  }
  return kSpinNanoseconds * kTurns / std::max<int64_t>(least, 1);
}

bool begins_with(const char* text, const char* prefix) {
  return std::strncmp(text, prefix, std::strlen(prefix)) == 0;
}

// Runs before the C library is initialised, so it keeps to system calls and its own stack.
void restart_with_short_spin(int /*argc*/, char** argv, char** variables) {
  int64_t count = 0;
  for (; variables[count] != nullptr; ++count) {
    if (begins_with(variables[count], kVariable)) return;
    if (begins_with(variables[count], "OMP_WAIT_POLICY=")) return;
  }
  // The kernel's vector, behind the variables: the path of the program, and where its dynamic
  // linker lies, which is 0 where the linker itself was started with the program as an argument.
  const char* path = nullptr;
  bool linked_by_kernel = false;
  const auto* entry = reinterpret_cast<const Elf64_auxv_t*>(variables + count + 1);
  for (; entry->a_type != AT_NULL; ++entry) {
    if (entry->a_type == AT_EXECFN) path = reinterpret_cast<const char*>(entry->a_un.a_val);
    if (entry->a_type == AT_BASE) linked_by_kernel = entry->a_un.a_val != 0;
  }
  if (path == nullptr || !linked_by_kernel) return;

  char setting[sizeof kVariable + 20] = {};  // 20 digits are the longest number
  std::memcpy(setting, kVariable, sizeof kVariable);
  std::to_chars(setting + sizeof kVariable - 1, setting + sizeof setting - 1, turns_of_spin());
  auto** changed =
      static_cast<char**>(__builtin_alloca(static_cast<size_t>(count + 2) * sizeof(char*)));
  std::copy_n(variables, count, changed);
  changed[count] = setting;
  changed[count + 1] = nullptr;
  ::execve(path, argv, changed);  // where this fails the program goes on as it is
}

__attribute__((section(".preinit_array"),
               used)) void (*const kBeforeAll)(int, char**, char**) = restart_with_short_spin;

}  // namespace
