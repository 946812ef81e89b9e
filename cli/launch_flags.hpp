// The flags for several processes (how they find each other, which transport they use) and for the
// backend.
#pragma once

#include "ringsched/runtime/join.hpp"
#include "ringsched/runtime/session.hpp"

namespace CLI {
class App;
}  // namespace CLI

namespace ringsched {

struct JoinFlags : JoinOptions {
  // `nccl`: whether --transport nccl is allowed.
  void add_to(CLI::App&, bool nccl);
  void add_exchanges_to(CLI::App&);
};

struct BackendFlags : BackendOptions {
  void add_to(CLI::App&);
};

}  // namespace ringsched
