// Flat tensors whose ranges share memory, in host memory that is mapped several times.
#include "device/slotted_memory.h"

#include <gtest/gtest.h>

#include "device/torch_headers.h"
#include "support/host_pages.h"

namespace lmtrain {
namespace {

using testing::HostPages;

constexpr int64_t kElements = HostPages::kPage / 4;  // of a page, in fp32

// Pages 0 to 9. The ranges begin and end inside pages, and one keeps elements in its middle.
Slots some_slots() {
  return {{{3 * kElements + 10, 20}, {2 * kElements, 0}},
          {{0, 4 * kElements + kElements / 2}, {4 * kElements + kElements / 2, 4 * kElements}},
          {1, 1}};
}

TEST(SlottedPages, AreSharedWhereNothingElseIsInThem) {
  const SlottedPages pages = slotted_pages(10 * kElements - 5, 4, HostPages::kPage, some_slots());
  // Page 3 is kept, page 4 is in two ranges, and the last 1.5 are in none.
  EXPECT_EQ(pages.number_in_slot, (std::vector<int64_t>{0, 1, 2, -1, -1, 0, 1, 2, -1, -1}));
  EXPECT_EQ(pages.pages_of_slot, (std::vector<int64_t>{0, 3}));
  EXPECT_EQ(pages.own_bytes(), 4 * HostPages::kPage);
  EXPECT_EQ(pages.slot_bytes(), 3 * HostPages::kPage);
}

TEST(SlotMemory, RangesOfASlotHaveTheSameMemory) {
  const auto mapper = std::make_shared<HostPages>();
  {
    SlotMemory memory(mapper);
    const at::Tensor flat = memory.zeros(10 * kElements - 5, at::kFloat, some_slots());
    EXPECT_EQ(flat.numel(), 10 * kElements - 5);
    EXPECT_EQ(flat.abs().max().item<double>(), 0);
    EXPECT_EQ(mapper->bytes_in_use(), 7 * HostPages::kPage);
    const auto page = [&](int64_t i) { return flat.narrow(0, i * kElements, kElements); };
    page(3).fill_(3);
    page(4).fill_(4);
    page(1).fill_(1);
    EXPECT_TRUE(at::equal(page(6), page(1)));
    page(6).fill_(6);
    EXPECT_EQ(page(1)[0].item<double>(), 6);
    EXPECT_EQ(page(3).min().item<double>(), 3);
    EXPECT_EQ(page(4).min().item<double>(), 4);

    // Another tensor of the same slots takes memory for what it does not share.
    const at::Tensor other = memory.zeros(10 * kElements - 5, at::kFloat, some_slots());
    EXPECT_EQ(mapper->bytes_in_use(), 11 * HostPages::kPage);
    EXPECT_EQ(page(6).abs().max().item<double>(), 0) << "it is one memory";
    EXPECT_EQ(page(3).min().item<double>(), 3);
  }
  EXPECT_EQ(mapper->bytes_in_use(), 0);
}

TEST(SlotMemory, ATensorOutlivesIt) {
  const auto mapper = std::make_shared<HostPages>();
  at::Tensor flat = SlotMemory(mapper).zeros(10 * kElements, at::kByte, some_slots());
  flat.fill_(1);
  flat.reset();
  EXPECT_EQ(mapper->bytes_in_use(), 0);
}

TEST(SlotMemory, WithoutSlotsItIsMemory) {
  const auto mapper = std::make_shared<HostPages>();
  SlotMemory memory(mapper);
  const at::Tensor flat = memory.zeros(1, at::kBFloat16, {});
  EXPECT_EQ(mapper->bytes_in_use(), HostPages::kPage);
  EXPECT_EQ(flat.item<double>(), 0);
}

}  // namespace
}  // namespace lmtrain
