// The address of this machine on the network that leads to another one.
#pragma once

#include <string>

namespace lmtrain {

// Returns the address in digits; empty where `host`, a name or an address, is not known or no route
// leads to it. A name is looked up, and the system says the route; nothing is sent to `host`.
std::string local_address_towards(const std::string& host);

// Returns whether an address in digits cannot be reached from another machine; true for an empty
// one.
bool is_loopback(const std::string& address);

}  // namespace lmtrain
