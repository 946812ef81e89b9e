// The flags that say how processes find each other, what carries their messages, and what computes.
#pragma once

#include "ringsched/runtime/join.hpp"
#include "ringsched/runtime/session.hpp"

namespace CLI {
class App;
}  // namespace CLI

namespace ringsched {

struct JoinFlags : JoinOptions {
  // `nccl`: whether that is a transport, too.
  void add_to(CLI::App&, bool nccl);
};

struct BackendFlags : BackendOptions {
  void add_to(CLI::App&);
};

}  // namespace ringsched
