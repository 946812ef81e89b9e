// Messages between processes over sockets of their own, one for each two that have something to
// tell each other, by a thread that does nothing else.
//
// The receiver says which message it is ready for; only then does the sender send it, piece by
// piece, straight from the tensor, and it is read straight into the other. So nothing is kept in
// between, and a message that nobody is ready for stands in nobody's way: two workers of a process
// share a connection, and a plan may have one wait for what the other gets first.
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
