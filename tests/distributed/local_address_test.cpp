// The address by which another machine reaches this one.
#include "distributed/local_address.h"

#include <gtest/gtest.h>

namespace lmtrain {
namespace {

TEST(LocalAddress, TowardsThisMachineIsTheLoopback) {
  EXPECT_EQ(local_address_towards("127.0.0.1"), "127.0.0.1");
}

TEST(LocalAddress, NothingLeadsToANameThatNobodyHas) {
  EXPECT_EQ(local_address_towards("no such machine"), "");
}

TEST(LocalAddress, LoopbacksAreKnown) {
  for (const char* address : {"", "127.0.0.1", "127.0.1.1", "::1"})
    EXPECT_TRUE(is_loopback(address)) << address;
  for (const char* address : {"192.0.2.1", "1.127.0.1", "2001:db8::1"})
    EXPECT_FALSE(is_loopback(address)) << address;
}

}  // namespace
}  // namespace lmtrain
