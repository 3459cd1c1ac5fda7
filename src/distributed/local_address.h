// Finds the address by which another machine reaches this one.
#pragma once

#include <string>

namespace lmtrain {

// Returns, in digits, this machine's address on the route to `host`, a name or an address. Empty if
// `host` is not known or no route leads to it. May ask a name server; sends nothing to `host`.
std::string local_address_towards(const std::string& host);

// Returns whether `address`, in digits, is a loopback address or empty.
bool is_loopback(const std::string& address);

}  // namespace lmtrain
