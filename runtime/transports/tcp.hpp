// Messages between processes over sockets, one for each pair that exchanges messages, by a
// dedicated thread.
//
// The receiver says which message it is ready for. Only then does the sender send it, piece by
// piece, straight from one tensor into the other. So nothing is buffered, and a message without a
// ready receiver blocks no other: two workers of a process share a connection, and in a plan one
// may wait for what the other gets first.
#pragma once

#include <memory>
#include <string>

#include "ringsched/runtime/transport.hpp"
#include "ringsched/runtime/world.hpp"

namespace ringsched {

// Together with all processes of the world. `host`: the address of this one. Throws RunFailed.
std::unique_ptr<Transport> make_tcp_transport(const Plan&, Control&, World&,
                                              const std::string& host, const TcpOptions&);

}  // namespace ringsched
