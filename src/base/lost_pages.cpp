#include "base/lost_pages.h"

#include <sched.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <map>
#include <string>

#include "base/error.h"
#include "base/text.h"

namespace lmtrain {
namespace {

enum class LostPages { kNone, kCutShort, kRefused };

struct Mapping {
  size_t size = 0;
  std::string path;
  std::string shown;  // the path, as messages write it
  bool survives = false;
  LostPages loss = LostPages::kNone;
};

// Whether a page of any file was lost in this process.
std::atomic<bool> g_any_lost = false;
static_assert(std::atomic<bool>::is_always_lock_free);

// Mappings by their first byte. Whoever holds the lock reads no mapped file, so the handler, which
// runs in the thread that reads one, never waits for itself.
std::atomic_flag g_lock = ATOMIC_FLAG_INIT;
std::map<uintptr_t, Mapping>& mappings() {
  static auto& all = *new std::map<uintptr_t, Mapping>();  // the handler may outlive statics
  return all;
}

class Locked {
 public:
  Locked() {
    while (g_lock.test_and_set(std::memory_order_acquire)) ::sched_yield();
  }
  ~Locked() { g_lock.clear(std::memory_order_release); }
  Locked(const Locked&) = delete;
  Locked& operator=(const Locked&) = delete;
};

// The mapping that holds an address. Requires the lock.
Mapping* find(uintptr_t address) {
  auto next = mappings().upper_bound(address);
  if (next == mappings().begin()) return nullptr;
  --next;
  return address - next->first < next->second.size ? &next->second : nullptr;
}

LostPages loss_of(const Mapping& mapping) {
  struct stat info {};
  const bool is_shorter = ::stat(mapping.path.c_str(), &info) == 0 &&
                          static_cast<uint64_t>(info.st_size) < mapping.size;
  return is_shorter ? LostPages::kCutShort : LostPages::kRefused;
}

constexpr const char* kCutShort =
    " was cut short by another program while it was read; write it anew, and run the command again";
constexpr const char* kRefused =
    ": the file system does not give a part of it that is mapped; wait until the file system "
    "answers, or check the disk";

void print_text(const char* text) {
  // An error here has no remedy.
  if (::write(STDERR_FILENO, text, std::strlen(text)) < 0) return;
}

[[noreturn]] void end_process(const Mapping& mapping, LostPages loss) {
  const bool is_cut = loss == LostPages::kCutShort;
  print_text("lmtrain: ");
  print_text(is_cut ? "" : "cannot read ");
  print_text(mapping.shown.c_str());
  print_text(is_cut ? kCutShort : kRefused);
  print_text("\n");
  _exit(exit_code(is_cut ? ErrorKind::kData : ErrorKind::kIo));
}

// The page with `address` reads as zeros from now on.
bool replace_page(uintptr_t address) {
  const auto page_bytes = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
  void* page = reinterpret_cast<void*>(address / page_bytes * page_bytes);
  return ::mmap(page, page_bytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) !=
         MAP_FAILED;
}

extern "C" void on_bus_error(int number, siginfo_t* info, void*) {
  const int error = errno;
  if (info->si_code > 0) {  // the kernel's own
    const Locked locked;
    const auto address = reinterpret_cast<uintptr_t>(info->si_addr);
    if (Mapping* mapping = find(address)) {
      const LostPages loss = loss_of(*mapping);
      if (!mapping->survives || !replace_page(address)) end_process(*mapping, loss);
      mapping->loss = loss;
      g_any_lost = true;
      errno = error;
      return;
    }
  }
  // The address is in no mapped file: do what happens without a handler.
  std::signal(number, SIG_DFL);
  ::raise(number);
}

}  // namespace

void handle_lost_pages() {
  mappings();
  struct sigaction action {};
  action.sa_sigaction = on_bus_error;
  action.sa_flags = SA_SIGINFO;
  sigemptyset(&action.sa_mask);
  sigaction(SIGBUS, &action, nullptr);
}

void survive_lost_pages(const MappedFile& file) {
  const Locked locked;
  if (Mapping* mapping = find(reinterpret_cast<uintptr_t>(file.bytes().data())))
    mapping->survives = true;
}

void require_whole(const MappedFile& file) {
  if (!g_any_lost.load(std::memory_order_relaxed)) return;
  LostPages loss = LostPages::kNone;
  {
    const Locked locked;
    const Mapping* mapping = find(reinterpret_cast<uintptr_t>(file.bytes().data()));
    if (mapping != nullptr) loss = mapping->loss;
  }
  if (loss == LostPages::kCutShort) throw Error(ErrorKind::kData, shown(file.path()) + kCutShort);
  if (loss == LostPages::kRefused)
    throw Error(ErrorKind::kIo, str("cannot read ", shown(file.path()), kRefused));
}

void note_mapping(const void* begin, size_t size, const std::filesystem::path& path) {
  Mapping mapping{size, path.native(), lmtrain::shown(path)};
  const Locked locked;
  mappings().insert_or_assign(reinterpret_cast<uintptr_t>(begin), std::move(mapping));
}

void forget_mapping(const void* begin) noexcept {
  const Locked locked;
  mappings().erase(reinterpret_cast<uintptr_t>(begin));
}

}  // namespace lmtrain
