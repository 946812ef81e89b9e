// The sockets between processes that exchange messages: which connects to which, and how each
// authenticates the other.
#pragma once

#include <map>
#include <set>
#include <string>

#include "rendezvous/socket.hpp"
#include "ringsched/runtime/world.hpp"

namespace ringsched {

// By rank, one for each of `peers`. Together with all processes of the world. Throws RunFailed.
std::map<std::uint32_t, Socket> connect_peers(World&, const Control&,
                                              const std::set<std::uint32_t>& peers,
                                              const std::string& host, const TcpOptions&);

}  // namespace ringsched
