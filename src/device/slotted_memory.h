// Gives flat tensors of a GPU their memory. A process keeps some ranges of a tensor for good, and
// other ranges only while it uses them.
//
// The ranges that are used for a time belong to slots: two ranges of one slot are never in use
// together. They have different addresses and the same memory, which the GPU's driver maps at both.
// So a whole tensor has the same offsets and views, and nothing is allocated or freed later. Who
// writes one range of a slot loses the values of the others; the writing must begin after the last
// kernel that reads them (device/side_stream.h). A page has memory of its own if any element of it
// is kept or in no slot, or if it is in two ranges.
//
// A host has a simpler way to the same: device/releasable_memory.h.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "device/element_range.h"

namespace lmtrain {

// Says which elements share memory. The ranges of a list do not overlap, and have any order.
struct Slots {
  std::vector<ElementRange> kept;  // elements with memory of their own
  std::vector<ElementRange> used;  // elements that are used for a time
  std::vector<size_t> slot_of;     // the slot of each range of `used`
};

// Says what memory a tensor takes.
struct SlottedPages {
  int64_t page_bytes = 0;
  // By page: its number in its slot; -1: it has memory of its own.
  std::vector<int64_t> number_in_slot;
  std::vector<size_t> slot;            // by page; unused where the page has memory of its own
  std::vector<int64_t> pages_of_slot;  // by slot: pages of its largest range

  int64_t own_bytes() const;
  int64_t slot_bytes() const;
};

// Returns the pages of a tensor of `numel` elements of `element_bytes`.
SlottedPages slotted_pages(int64_t numel, int64_t element_bytes, int64_t page_bytes,
                           const Slots& slots);

// Maps memory at addresses of a device. Sizes and addresses are multiples of page_bytes().
class PageMapper {
 public:
  PageMapper() = default;
  PageMapper(const PageMapper&) = delete;
  PageMapper& operator=(const PageMapper&) = delete;
  virtual ~PageMapper() = default;

  virtual at::Device device() const = 0;
  virtual int64_t page_bytes() const = 0;
  // Returns addresses, without memory. Throws Error(kMemory).
  virtual char* reserve(int64_t bytes) = 0;
  // Returns the number of new memory, without an address. Throws Error(kMemory).
  virtual uint64_t allocate(int64_t bytes) = 0;
  // Gives reserved addresses all `bytes` of the memory. The same memory may be mapped at several
  // addresses.
  virtual void map(char* address, uint64_t memory, int64_t bytes) = 0;
  // Makes addresses readable and writable. Memory must be mapped at each of them.
  virtual void allow(char* address, int64_t bytes) = 0;
  // Undoes reserve() and each map() in it, once the device has done its work. Throws nothing.
  virtual void unreserve(char* address, int64_t bytes,
                         const std::vector<std::pair<char*, int64_t>>& mapped) noexcept = 0;
  // Gives memory back that is mapped nowhere. Throws nothing.
  virtual void free(uint64_t memory, int64_t bytes) noexcept = 0;
};

// Returns the mapper of a GPU. Throws Error(kConfig) if the driver or this program cannot map
// memory there; the message says why.
std::shared_ptr<PageMapper> page_mapper(const at::Device& device);
// Is the size of page_mapper()'s pages on GPUs of today, for plans.
inline constexpr int64_t kGpuPageBytes = int64_t{2} << 20;

// Makes tensors that share the memory of slots. Several tensors of one SlotMemory must not use one
// slot at the same time.
class SlotMemory {
 public:
  explicit SlotMemory(std::shared_ptr<PageMapper> mapper);
  // Returns a one-dimensional tensor of `numel` >= 1 zeros. The tensor may outlive this object.
  // Throws Error(kMemory).
  at::Tensor zeros(int64_t numel, at::ScalarType dtype, const Slots& slots);

 private:
  struct Pages;
  std::shared_ptr<Pages> pages_;
};

// Returns the bytes that the tensors of all mappers of GPUs take in this process.
uint64_t slotted_bytes();

}  // namespace lmtrain
