#include <algorithm>
#include <limits>

#include "engines.hpp"

#include "ringsched/scheduler/stop.hpp"

namespace ringsched {

namespace {

constexpr std::uint32_t kNone = ~0u;
constexpr std::int64_t kUnknown = -1;

struct LaneState {
  std::int64_t free = 0;               // when what came before was complete
  std::int64_t posted = 0;             // of the open group
  std::uint32_t last = kNone;          // the task before
  Cause cause;                         // of the open group's start
  bool sealed = false;                 // another task relied on its posting time: it may not grow
  std::vector<std::uint32_t> members;  // of the open group
  // The last route, which is most often the next one too.
  std::uint32_t to = kNone;
  Route route;
  double rate = 0;
  std::uint32_t work = kNone;
  std::int64_t duration = 0;
};

class OnePass {
 public:
  OnePass(const Workload& w, const Costs& costs, Simulation& s)
      : workload_(w),
        plan_(*w.plan),
        costs_(costs),
        out_(s),
        numbers_(plan_),
        lanes_(numbers_.all),
        link_user_(w.network.links(), kNone),
        link_group_(w.network.links(), kNone) {}

  bool run() {
    const std::size_t count = plan_.tasks.size();
    out_.start.resize(count);
    out_.end.resize(count);
    out_.cause.resize(count);
    out_.links.assign(workload_.network.links(), {});
    const ControlEdge* control = plan_.controls.data();
    const ControlEdge* const controls_end = control + plan_.controls.size();
    for (std::uint32_t id = 0; id < count; ++id) {
      if (id % 65536 == 0) stop_here();
      const Task& task = plan_.tasks[id];
      LaneState& lane = lanes_[numbers_.of(task)];
      const bool joins = task.with_previous && !lane.members.empty();
      if (joins && lane.sealed) return false;
      if (!joins && !lane.members.empty() && !complete(lane, id)) return false;

      std::int64_t ready = joins ? lane.posted : lane.free;
      Cause cause = joins                ? lane.cause
                    : lane.last == kNone ? Cause{}
                                         : Cause{Cause::Lane, lane.last & kTaskBits};
      if (!joins && ready == 0) cause = {};
      const auto wait_for = [&](std::uint32_t before, Cause::Kind kind) {
        if (before >= id) return false;
        if (out_.end[before] == kUnknown && !complete(lanes_[numbers_.of(plan_.tasks[before])], id))
          return false;
        if (out_.end[before] > ready) {
          ready = out_.end[before];
          cause = {kind, before & kTaskBits};
        }
        return true;
      };
      // The members of a repack are done together.
      const std::uint32_t end = is_repack(task.kind) ? plan_.exchange(task).end() : id + 1;
      for (std::uint32_t m = id; m < end; ++m) {
        for (const TensorId input : plan_.tasks[m].inputs) {
          if (!input.valid()) continue;
          const TaskId maker = plan_.producer(input);
          if (maker.valid() && !wait_for(maker.value, Cause::Data)) return false;
        }
        for (; control != controls_end && control->after.value == m; ++control)
          if (!wait_for(control->before.value, Cause::Control)) return false;
      }

      if (costs_.has_host() && costs_.issued(id) > ready) {
        ready = costs_.issued(id);
        cause = {Cause::Host, 0};
      }

      if (is_transfer(task.kind)) {
        lane.posted = ready;
        lane.cause = cause;
        lane.members.push_back(id);
        out_.end[id] = kUnknown;
      } else {
        out_.start[id] = ready;
        out_.cause[id] = cause;
        lane.free = out_.end[id] = after(ready, costs_.compute(id, task));
        lane.last = id;
        for (const std::uint32_t first = id; id + 1 < end;) {
          ++id;
          out_.start[id] = out_.end[id] = lane.free;
          out_.cause[id] = {Cause::Member, first & kTaskBits};
        }
      }
    }
    for (LaneState& lane : lanes_)
      if (!lane.members.empty() && !complete(lane, static_cast<std::uint32_t>(count))) return false;
    return true;
  }

 private:
  static constexpr std::uint32_t kTaskBits = (1u << 29) - 1;

  void seal(LaneState& lane) {
    lane.sealed = true;
    for (const std::uint32_t m : lane.members) out_.start[m] = lane.posted;
  }

  // Ends the open group of a lane. `next`: the first task not seen yet.
  bool complete(LaneState& lane, std::uint32_t next) {
    if (!lane.sealed) seal(lane);
    std::int64_t group_end = 0;
    std::uint32_t longest = lane.members[0];
    for (const std::uint32_t m : lane.members) {
      const Task& task = plan_.tasks[m];
      const std::uint32_t peer = task.peer.value;
      if (peer >= next) return false;
      LaneState& other = lanes_[numbers_.of(plan_.tasks[peer])];
      if (out_.end[peer] == kUnknown && !other.sealed) seal(other);
      const bool sends = is_send(task.kind);
      const std::uint32_t send = sends ? m : peer;
      if (sends && !takes_links(lane, m)) return false;
      out_.end[m] = after(begin_of(send), duration(sends ? lane : other, send));
      if (out_.end[m] > group_end) {
        group_end = out_.end[m];
        longest = m;
      }
    }
    for (std::size_t i = 0; i < lane.members.size(); ++i) {
      const std::uint32_t m = lane.members[i];
      out_.end[m] = group_end;
      out_.cause[m] = i == 0 ? lane.cause : Cause{Cause::Member, longest & kTaskBits};
    }
    lane.free = group_end;
    lane.last = longest;
    lane.members.clear();
    lane.sealed = false;
    return true;
  }

  std::int64_t begin_of(std::uint32_t send) const {
    return std::max(out_.start[send], out_.start[plan_.tasks[send].peer.value]);
  }

  void look_up_way(LaneState& lane, const Task& send) {
    const std::uint32_t to = plan_.tasks[send.peer.value].worker_index;
    if (lane.to == to) return;
    lane.to = to;
    lane.route = workload_.network.route(send.worker(), {to});
    lane.rate = workload_.network.rate(lane.route);
    lane.work = kNone;
  }

  std::int64_t duration(LaneState& lane, std::uint32_t send) {
    const Task& task = plan_.tasks[send];
    look_up_way(lane, task);
    if (lane.work == task.work.value && costs_.by_price()) return lane.duration;
    const MessageCost message = costs_.message(send, task, lane.route.distance);
    lane.work = task.work.value;
    lane.duration = after(message.startup_ps, flow_ps(message.bytes, lane.rate));
    return lane.duration;
  }

  // Counts the bytes over each link; false if two lanes use one, or one group uses one twice at
  // once.
  bool takes_links(LaneState& lane, std::uint32_t send) {
    const Task& task = plan_.tasks[send];
    look_up_way(lane, task);
    if (lane.route.count == 0) return true;
    const std::uint32_t user = numbers_.of(task);
    const double bytes = costs_.message(send, task, lane.route.distance).bytes;
    const std::int64_t busy = flow_ps(bytes, lane.rate);
    for (const LinkId link : lane.route.over()) {
      if (link_user_[link.value] != user && link_user_[link.value] != kNone) return false;
      if (link_group_[link.value] == lane.members[0]) return false;
      link_user_[link.value] = user;
      link_group_[link.value] = lane.members[0];
      out_.links[link.value].bytes += bytes;
      out_.links[link.value].busy.value += busy;
    }
    return true;
  }

  const Workload& workload_;
  const Plan& plan_;
  const Costs& costs_;
  Simulation& out_;
  const LaneNumbers numbers_;
  std::vector<LaneState> lanes_;
  std::vector<std::uint32_t> link_user_;   // the lane whose messages take it
  std::vector<std::uint32_t> link_group_;  // the first member of the last group on it
};

}  // namespace

bool in_one_pass(const Workload& w, const Costs& costs, Simulation& out) {
  const bool devices_shared =
      w.network.workers_per_device() > w.concurrency || w.copy_cores > 0 || w.full_slowdown > 1;
  if (!w.plan->exchanges.empty() || w.one_stream || w.free_transfers) return false;
  if (!w.transfers.empty() || !w.waits_before.empty()) return false;
  if (devices_shared || w.waits_for_kernel || !w.slowed[0].empty()) return false;
  return OnePass(w, costs, out).run();
}

}  // namespace ringsched
