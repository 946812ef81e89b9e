// The workload of ../reference_ring.cpp in SimGrid, as its users would write it: an actor for each
// worker, which in each step starts to receive and to send, computes, and waits for both.
//
// usage: ring_simgrid ring|switch W S [JITTER]
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include <simgrid/s4u.hpp>

namespace s4u = simgrid::s4u;

namespace {

double jitter;

double spread(std::uint64_t worker, std::uint64_t step, std::uint64_t salt) {
  std::uint64_t z = (worker << 33) ^ (step << 2) ^ salt;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  z ^= z >> 31;
  return 1 + jitter * (2 * static_cast<double>(z >> 11) / 9007199254740992.0 - 1);
}

void worker(int r, int workers, int steps) {
  static int token;
  auto* const out = s4u::Mailbox::by_name(std::to_string((r + 1) % workers));
  auto* const in = s4u::Mailbox::by_name(std::to_string(r));
  for (int s = 0; s < steps; ++s) {
    void* received = nullptr;
    const bool last = s + 1 == steps;
    s4u::CommPtr arrives, leaves;
    if (!last) {
      arrives = in->get_async(&received);
      leaves = out->put_async(&token, static_cast<std::uint64_t>(1e8 * spread(r, s, 2)));
    }
    s4u::this_actor::execute((s <= r ? 1e9 : 1e7) * spread(r, s, 1));
    if (last) break;
    arrives->wait();
    leaves->wait();
  }
}

}  // namespace

int main(int argc, char** argv) {
  // Plain max-min sharing and latency, without the model of TCP that SimGrid has by default.
  std::vector<char*> arguments(argv, argv + argc);
  std::string options[] = {"--cfg=network/model:CM02", "--cfg=network/TCP-gamma:0",
                           "--log=root.thres:error"};
  for (std::string& o : options) arguments.push_back(o.data());
  int count = static_cast<int>(arguments.size());
  arguments.push_back(nullptr);
  s4u::Engine engine(&count, arguments.data());
  if (count < 4) {
    std::fprintf(stderr, "usage: ring_simgrid ring|switch W S [JITTER]\n");
    return 2;
  }
  const bool through_core = std::string(arguments[1]) == "switch";
  const int workers = std::atoi(arguments[2]), steps = std::atoi(arguments[3]);
  jitter = count > 4 ? std::atof(arguments[4]) / 100 : 0;

  auto* const zone = s4u::create_full_zone("machine");
  std::vector<s4u::Host*> hosts;
  std::vector<s4u::Link*> up, down;
  for (int r = 0; r < workers; ++r) {
    hosts.push_back(zone->create_host("worker-" + std::to_string(r), 1e12));
    up.push_back(zone->create_link("up-" + std::to_string(r), 3e11)->set_latency(2e-6));
    down.push_back(
        zone->create_link("down-" + std::to_string(r), 3e11)->set_latency(through_core ? 2e-6 : 0));
  }
  auto* const core = zone->create_link("core", 3e11 * workers / 4)->set_latency(1e-6);
  for (int r = 0; r < workers; ++r) {
    const int to = (r + 1) % workers;
    std::vector<s4u::LinkInRoute> route{s4u::LinkInRoute(up[r])};
    if (through_core) {
      route.emplace_back(core);
      route.emplace_back(down[to]);
    }
    zone->add_route(hosts[r]->get_netpoint(), hosts[to]->get_netpoint(), nullptr, nullptr, route,
                    false);
  }
  zone->seal();
  for (int r = 0; r < workers; ++r)
    s4u::Actor::create("worker-" + std::to_string(r), hosts[r],
                       [r, workers, steps] { worker(r, workers, steps); });
  engine.run();
  std::printf("simulated=%.6f\n", s4u::Engine::get_clock());
  std::fflush(stdout);
  std::_Exit(0);  // its destructors are not part of the time
}
