// An independent referee: replays a text workload in SimGrid and prints its makespan.
//
//   simgrid_replay < workload      prints "makespan <seconds>"
//
// It knows the workload format and nothing else. Every lane of a worker is an actor that runs its
// units (a compute, or a group of transfers) one after the other; every transfer is an actor that
// sleeps its latency once both its groups are posted and then sends its bytes over its route. All
// times in the workload are picoseconds. Exit status: 0, or 1 when the workload is malformed or
// comes to a standstill.
#include <xbt/log.h>
#include <simgrid/s4u.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <iostream>
#include <map>
#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace {

namespace s4u = simgrid::s4u;

constexpr double kPicosecond = 1e-12;

struct Task {
  std::string kind;
  std::size_t unit = 0;
  std::size_t peer = 0;            // the other half of a transfer
  double duration = 0;             // seconds: a compute's length, a send's latency
  std::uint64_t bytes = 0;         // of a send
  std::vector<std::size_t> route;  // of a send: indices of links
  std::vector<std::size_t> deps;
  std::vector<std::size_t> waiters;  // the units that wait for this task, once for each dependency
  int posted = 0;                    // of a send: how many of its two groups are posted
};

struct Unit {
  std::vector<std::size_t> members;
  std::size_t missing = 0;  // dependencies of the members that are not complete
  std::size_t flowing = 0;  // transfers of the members that are not complete
  s4u::SemaphorePtr ready = s4u::Semaphore::create(0);
  s4u::SemaphorePtr arrived = s4u::Semaphore::create(0);
};

struct Workload {
  std::vector<double> links;  // bytes per second
  std::vector<Task> tasks;
  std::vector<Unit> units;
  std::vector<std::vector<std::size_t>> lanes;  // the units of (worker, lane), in order
};

void require(bool holds, const std::string& what) {
  if (!holds) throw std::runtime_error("malformed workload: " + what);
}

// Reads what follows the kind on the line of one task, and puts the task into its unit. False when
// the line is malformed.
bool read_task(std::istream& in, std::size_t lanes_per_worker, Task task, Workload& w) {
  const bool compute = task.kind == "compute";
  std::size_t id = 0;
  std::size_t worker = 0;
  std::size_t index = 0;
  int with_previous = 0;
  std::string word;
  in >> id >> worker >> index;
  if (!compute) in >> with_previous >> task.peer;
  if (task.kind == "send") in >> task.bytes;
  if (task.kind != "receive") in >> task.duration;
  task.duration *= kPicosecond;
  if (task.kind == "send") {
    if (!(in >> word) || word != "route") return false;
    while (in >> word && word != "deps") task.route.push_back(std::stoul(word));
  } else {
    in >> word;
  }
  if (!in || word != "deps") return false;
  for (std::size_t dep = 0; in >> dep;) task.deps.push_back(dep);
  const std::size_t place = worker * lanes_per_worker + index;
  if (!in.eof() || id != w.tasks.size() || index >= lanes_per_worker || place >= w.lanes.size())
    return false;
  for (const std::size_t link : task.route)
    if (link >= w.links.size()) return false;

  auto& lane = w.lanes[place];
  if (with_previous == 0) {
    lane.push_back(w.units.size());
    w.units.emplace_back();
  } else if (lane.empty() || w.tasks[w.units[lane.back()].members[0]].kind == "compute") {
    return false;  // no transfer to share a group with
  }
  task.unit = lane.back();
  w.units[task.unit].members.push_back(id);
  w.tasks.push_back(std::move(task));
  return true;
}

Workload read_workload(std::istream& in) {
  Workload w;
  std::string line;
  std::size_t workers = 0;
  std::size_t lanes = 0;
  require(std::getline(in, line) && line == "ringsched-workload 1", "first line");
  while (std::getline(in, line)) {
    std::istringstream words(line);
    Task task;
    words >> task.kind;
    if (task.kind == "workers") {
      require(static_cast<bool>(words >> workers), line);
    } else if (task.kind == "lanes") {
      require(static_cast<bool>(words >> lanes), line);
      w.lanes.resize(workers * lanes);
    } else if (task.kind == "link") {
      std::size_t index = 0;
      double bandwidth = 0;
      words >> index >> bandwidth;
      require(words && index == w.links.size() && bandwidth > 0, line);
      w.links.push_back(bandwidth);
    } else {
      require(task.kind == "compute" || task.kind == "send" || task.kind == "receive", line);
      require(read_task(words, lanes, std::move(task), w), line);
    }
  }
  for (std::size_t id = 0; id < w.tasks.size(); ++id) {
    const Task& task = w.tasks[id];
    w.units[task.unit].missing += task.deps.size();
    for (const std::size_t dep : task.deps) {
      require(dep < w.tasks.size(), "dependencies of task " + std::to_string(id));
      w.tasks[dep].waiters.push_back(task.unit);
    }
    if (task.kind == "compute") continue;
    ++w.units[task.unit].flowing;
    require(task.peer < w.tasks.size() && w.tasks[task.peer].peer == id &&
                w.tasks[task.peer].kind == (task.kind == "send" ? "receive" : "send"),
            "the two halves of transfer " + std::to_string(id));
  }
  return w;
}

// More than the makespan can be: everything one after the other.
double serial_time(const Workload& w) {
  double sum = 0;
  for (const Task& task : w.tasks) {
    sum += task.duration;
    double slowest = 0;
    for (const std::size_t link : task.route) slowest = std::max(slowest, 1 / w.links[link]);
    sum += static_cast<double>(task.bytes) * slowest;
  }
  return sum;
}

class Replay {
 public:
  explicit Replay(Workload& workload) : w_(workload) {
    // A star in which every distinct route is the way up from a host of its own, and the way down
    // to the one host that receives (and on which the actors live) has no link.
    auto* zone = s4u::create_star_zone("star");
    sink_ = zone->create_host("sink", 1.0);
    zone->add_route(nullptr, sink_->get_netpoint(), nullptr, nullptr,
                    std::vector<s4u::LinkInRoute>{}, false);
    std::vector<s4u::Link*> links;
    for (std::size_t i = 0; i < w_.links.size(); ++i)
      links.push_back(zone->create_link("link" + std::to_string(i), w_.links[i])->seal());
    for (const Task& task : w_.tasks) {
      if (task.route.empty() || sources_.count(task.route) != 0) continue;
      auto* source = zone->create_host("source" + std::to_string(sources_.size()), 1.0);
      std::vector<s4u::LinkInRoute> route;
      for (const std::size_t link : task.route) route.emplace_back(links[link]);
      zone->add_route(source->get_netpoint(), nullptr, nullptr, nullptr, route, false);
      sources_[task.route] = source;
    }
    zone->seal();
    for (const auto& lane : w_.lanes)
      if (!lane.empty()) s4u::Actor::create("lane", sink_, [this, &lane] { run_lane(lane); });
  }

  double makespan() const { return makespan_; }
  bool finished() const { return completed_ == w_.tasks.size(); }

 private:
  void run_lane(const std::vector<std::size_t>& lane) {
    for (const std::size_t id : lane) {
      Unit& unit = w_.units[id];
      if (unit.missing > 0) unit.ready->acquire();
      if (unit.flowing == 0) {
        s4u::this_actor::sleep_for(w_.tasks[unit.members[0]].duration);  // nothing when it is zero
      } else {
        for (const std::size_t member : unit.members) post(w_.tasks[member]);
        unit.arrived->acquire();
      }
      complete(unit);
    }
  }

  void post(Task& half) {
    Task& send = half.kind == "send" ? half : w_.tasks[half.peer];
    if (++send.posted == 2) s4u::Actor::create("transfer", sink_, [this, &send] { flow(send); });
  }

  void flow(const Task& send) {
    s4u::this_actor::sleep_for(send.duration);
    if (send.bytes > 0 && !send.route.empty())
      s4u::Comm::sendto(sources_.at(send.route), sink_, send.bytes);
    for (const std::size_t id : {send.unit, w_.tasks[send.peer].unit})
      if (--w_.units[id].flowing == 0) w_.units[id].arrived->release();
  }

  void complete(const Unit& unit) {
    makespan_ = s4u::Engine::get_clock();
    completed_ += unit.members.size();
    for (const std::size_t member : unit.members)
      for (const std::size_t id : w_.tasks[member].waiters)
        if (--w_.units[id].missing == 0) w_.units[id].ready->release();
  }

  Workload& w_;
  s4u::Host* sink_ = nullptr;
  std::map<std::vector<std::size_t>, s4u::Host*> sources_;
  double makespan_ = 0;
  std::size_t completed_ = 0;
};

int replay(int argc, char** argv) {
  xbt_log_control_set("root.thres:error");
  s4u::Engine engine(&argc, argv);
  Workload workload = read_workload(std::cin);
  // Latencies are slept, so links have none; the network shares its links max-min fairly and adds
  // nothing of its own.
  for (const char* setting :
       {"network/model:CM02", "network/TCP-gamma:0", "network/latency-factor:1",
        "network/bandwidth-factor:1", "network/weight-S:0", "network/crosstraffic:0",
        "maxmin/precision:1e-12", "contexts/stack-size:256"})
    engine.set_config(setting);
  // Instants closer than this count as one. SimGrid can miss the end of an action when this is
  // less than the rounding of its clock: hence a few units in the last place of the latest instant.
  engine.set_config("surf/precision", std::max(1e-15 * serial_time(workload), 1e-18));
  Replay run(workload);
  engine.run();
  if (!run.finished()) throw std::runtime_error("the workload comes to a standstill");
  std::printf("makespan %.12f\n", run.makespan());
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return replay(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "simgrid_replay: %s\n", error.what());
    return 1;
  }
}
