// The address by which another machine reaches this one.
#include "distributed/local_address.h"

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <netdb.h>

#include <array>

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

// libtorch finds the function as dlsym() does. /etc/hosts has a name for this address.
TEST(LocalAddress, LibtorchAsksNobodyForTheNameOfAnAddress) {
  const auto name = reinterpret_cast<decltype(&getnameinfo)>(::dlsym(RTLD_DEFAULT, "getnameinfo"));
  addrinfo hints{};
  hints.ai_flags = AI_NUMERICHOST;
  addrinfo* found = nullptr;
  ASSERT_EQ(::getaddrinfo("127.0.0.1", nullptr, &hints, &found), 0);
  std::array<char, NI_MAXHOST> host{};
  EXPECT_EQ(name(found->ai_addr, found->ai_addrlen, host.data(), host.size(), nullptr, 0, 0), 0);
  EXPECT_STREQ(host.data(), "127.0.0.1");
  ::freeaddrinfo(found);
}

}  // namespace
}  // namespace lmtrain
