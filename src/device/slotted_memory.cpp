#include "device/slotted_memory.h"

#include <algorithm>
#include <atomic>
#include <numeric>
#include <utility>

#include "base/error.h"
#include "base/text.h"
#include "device/device_memory.h"
#include "device/dispatch.h"
#include "device/torch_headers.h"

namespace lmtrain {
namespace {

std::atomic<uint64_t> mapped_bytes{0};

#ifdef LMTRAIN_CUDA_ARCHITECTURES
class GpuMapper final : public PageMapper {
 public:
  explicit GpuMapper(const at::Device& device) : device_(device) {
    const c10::DeviceGuard guard(device_);
    page_bytes_ = cuda::page_bytes();
  }

  at::Device device() const override { return device_; }
  int64_t page_bytes() const override { return page_bytes_; }
  char* reserve(int64_t bytes) override {
    const c10::DeviceGuard guard(device_);
    return static_cast<char*>(cuda::reserve_addresses(bytes));
  }
  uint64_t allocate(int64_t bytes) override {
    const c10::DeviceGuard guard(device_);
    const uint64_t memory = create(bytes);
    mapped_bytes += static_cast<uint64_t>(bytes);
    return memory;
  }
  void map(char* address, uint64_t memory, int64_t bytes) override {
    const c10::DeviceGuard guard(device_);
    cuda::map_pages(address, memory, bytes);
  }
  void allow(char* address, int64_t bytes) override {
    const c10::DeviceGuard guard(device_);
    cuda::allow_access(address, bytes);
  }
  void unreserve(char* address, int64_t bytes,
                 const std::vector<std::pair<char*, int64_t>>& mapped) noexcept override {
    try {
      const c10::DeviceGuard guard(device_);
      synchronize(device_);
      for (const auto& [at, size] : mapped) cuda::unmap_pages(at, size);
      cuda::free_addresses(address, bytes);
    } catch (const std::exception&) {  // the GPU has failed, and the program ends
    }
  }
  void free(uint64_t memory, int64_t bytes) noexcept override {
    cuda::destroy_pages(memory);
    mapped_bytes -= static_cast<uint64_t>(bytes);
  }

 private:
  uint64_t create(int64_t bytes) const {
    try {
      return cuda::create_pages(bytes);
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kMemory) throw;
    }
    reset_peak_memory(device_);  // libtorch's allocator may keep memory that nobody uses
    return cuda::create_pages(bytes);
  }

  at::Device device_;
  int64_t page_bytes_ = 0;
};
#endif

// Returns the number of pages that hold `bytes`.
int64_t pages_of(int64_t bytes, int64_t page_bytes) {
  return (bytes + page_bytes - 1) / page_bytes;
}

}  // namespace

int64_t SlottedPages::own_bytes() const {
  return page_bytes * std::count(number_in_slot.begin(), number_in_slot.end(), -1);
}

int64_t SlottedPages::slot_bytes() const {
  return page_bytes * std::accumulate(pages_of_slot.begin(), pages_of_slot.end(), int64_t{0});
}

SlottedPages slotted_pages(int64_t numel, int64_t element_bytes, int64_t page_bytes,
                           const Slots& slots) {
  SlottedPages pages;
  pages.page_bytes = page_bytes;
  const auto count = static_cast<size_t>(pages_of(numel * element_bytes, page_bytes));
  std::vector<bool> is_own(count);
  for (const ElementRange& range : slots.kept) {
    if (range.size == 0) continue;
    const int64_t end = pages_of(range.end() * element_bytes, page_bytes);
    for (int64_t page = range.first * element_bytes / page_bytes; page < end; ++page)
      is_own[static_cast<size_t>(page)] = true;
  }
  pages.number_in_slot.assign(count, -1);
  pages.slot.assign(count, 0);
  for (size_t i = 0; i < slots.used.size(); ++i) {
    const size_t slot = slots.slot_of[i];
    if (pages.pages_of_slot.size() <= slot) pages.pages_of_slot.resize(slot + 1);
    const ElementRange& range = slots.used[i];
    // Whole pages alone.
    const int64_t end = range.end() * element_bytes / page_bytes;
    int64_t number = 0;
    for (int64_t page = pages_of(range.first * element_bytes, page_bytes); page < end; ++page) {
      const auto at = static_cast<size_t>(page);
      if (is_own[at]) continue;
      pages.slot[at] = slot;
      pages.number_in_slot[at] = number++;
    }
    pages.pages_of_slot[slot] = std::max(pages.pages_of_slot[slot], number);
  }
  return pages;
}

std::shared_ptr<PageMapper> page_mapper(const at::Device& device) {
#ifdef LMTRAIN_CUDA_ARCHITECTURES
  if (device.is_cuda()) return std::make_shared<GpuMapper>(device);
#endif
  throw Error(ErrorKind::kConfig,
              str("this program maps no memory on ", device.str(),
                  ": it was built without GPU code; build where nvcc is, with -DLMTRAIN_CUDA=on"));
}

uint64_t slotted_bytes() { return mapped_bytes; }

// Holds the memory of the slots, which all tensors share.
struct SlotMemory::Pages {
  explicit Pages(std::shared_ptr<PageMapper> mapper_) : mapper(std::move(mapper_)) {}
  ~Pages() {
    for (const std::vector<uint64_t>& slot : slots)
      for (const uint64_t page : slot) mapper->free(page, mapper->page_bytes());
  }
  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;

  uint64_t page(size_t slot, int64_t number) {
    if (slots.size() <= slot) slots.resize(slot + 1);
    while (static_cast<int64_t>(slots[slot].size()) <= number)
      slots[slot].push_back(mapper->allocate(mapper->page_bytes()));
    return slots[slot][static_cast<size_t>(number)];
  }

  std::shared_ptr<PageMapper> mapper;
  std::vector<std::vector<uint64_t>> slots;  // by slot: its pages
};

namespace {

// Owns the addresses of a tensor, and the memory that it shares with no other.
class SlottedMapping {
 public:
  // `slots` owns the memory of the slots, and lives as long as the addresses.
  SlottedMapping(std::shared_ptr<PageMapper> mapper, std::shared_ptr<void> slots, int64_t bytes)
      : mapper_(std::move(mapper)),
        slots_(std::move(slots)),
        bytes_(bytes),
        address_(mapper_->reserve(bytes)) {}
  ~SlottedMapping() {
    mapper_->unreserve(address_, bytes_, mapped_);
    for (const auto& [memory, bytes] : own_) mapper_->free(memory, bytes);
  }
  SlottedMapping(const SlottedMapping&) = delete;
  SlottedMapping& operator=(const SlottedMapping&) = delete;

  char* address() const { return address_; }
  void map(int64_t offset, uint64_t memory, int64_t bytes) {
    mapper_->map(address_ + offset, memory, bytes);
    mapped_.emplace_back(address_ + offset, bytes);
  }
  void map_own(int64_t offset, int64_t bytes) {
    own_.emplace_back(mapper_->allocate(bytes), bytes);
    map(offset, own_.back().first, bytes);
  }

 private:
  std::shared_ptr<PageMapper> mapper_;
  std::shared_ptr<void> slots_;
  int64_t bytes_;
  char* address_;
  std::vector<std::pair<char*, int64_t>> mapped_;
  std::vector<std::pair<uint64_t, int64_t>> own_;  // memory and its bytes
};

}  // namespace

SlotMemory::SlotMemory(std::shared_ptr<PageMapper> mapper)
    : pages_(std::make_shared<Pages>(std::move(mapper))) {}

at::Tensor SlotMemory::zeros(int64_t numel, at::ScalarType dtype, const Slots& slots) {
  const auto element = static_cast<int64_t>(c10::elementSize(dtype));
  const int64_t page_bytes = pages_->mapper->page_bytes();
  const SlottedPages pages = slotted_pages(numel, element, page_bytes, slots);
  const auto count = static_cast<int64_t>(pages.number_in_slot.size());
  const auto mapping = std::make_shared<SlottedMapping>(pages_->mapper, pages_, count * page_bytes);
  for (int64_t page = 0; page < count;) {
    const auto number_of = [&](int64_t at) {
      return pages.number_in_slot[static_cast<size_t>(at)];
    };
    int64_t end = page + 1;
    if (number_of(page) >= 0) {
      mapping->map(page * page_bytes,
                   pages_->page(pages.slot[static_cast<size_t>(page)], number_of(page)),
                   page_bytes);
    } else {
      while (end < count && number_of(end) < 0) ++end;
      mapping->map_own(page * page_bytes, (end - page) * page_bytes);
    }
    page = end;
  }
  pages_->mapper->allow(mapping->address(), count * page_bytes);
  const at::Device device = pages_->mapper->device();
  const at::Tensor flat = at::from_blob(
      mapping->address(), {numel}, [mapping](void* /*data*/) {},
      at::TensorOptions().dtype(dtype).device(device), device);
  return flat.zero_();
}

}  // namespace lmtrain
