// Workers that are GPUs, one for each process: messages by NCCL, on the streams of their lanes.
//
// Each lane that has messages has a communicator. Within one, operations run in the order of their
// launch, whatever stream they are on, so lanes that share one would wait for each other.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <exception>
#include <set>

#include "ringsched/scheduler/error.hpp"
#include "transports/message_order.hpp"
#include "transports/nccl/communicator.hpp"

namespace ringsched {

namespace {

using nccl::Communicator;

struct Range {
  std::byte *first = nullptr, *end = nullptr;
  void add(std::byte* at, std::int64_t bytes) {
    first = first ? std::min(first, at) : at;
    end = std::max(end, at + bytes);
  }
};

class NcclTransport final : public Transport {
 public:
  NcclTransport(const Plan& plan, Control& control, World& world, const NcclOptions& options)
      : world_(world), options_(options) {
    if (plan.problem.workers != world.size())
      fail("{} workers in {} process{}: NCCL needs one worker and one GPU per process",
           plan.problem.workers, world.size(), world.size() == 1 ? "" : "es");
    if (const std::string conflict = order_conflict(plan); !conflict.empty())
      fail("NCCL matches messages by order alone, and in this plan {}", conflict);
    nccl::take_gpu(options);
    for (std::uint32_t lane = 0; lane < plan.lane_count(); ++lane) {
      std::set<std::pair<int, int>> ways;  // from, to
      for (const Task& t : plan.tasks)
        if (is_send(t.kind) && t.lane == static_cast<Lane>(lane))
          ways.emplace(t.worker_index, plan.tasks[t.peer.value].worker_index);
      if (ways.empty()) continue;
      lanes_[lane] = std::make_shared<Communicator>(world, control, options);
      warm_up(*lanes_[lane], ways);
    }
  }
  ~NcclTransport() override {
    if (std::uncaught_exceptions() > 0) give_up();
    for (const auto& c : lanes_)
      if (c) c->leave();
  }

  void begin_run() override {
    if (std::exchange(registered_, true) || !options_.register_memory) return;
    for (std::size_t lane = 0; lane < lanes_.size(); ++lane)
      if (lanes_[lane])
        lanes_[lane]->use_memory(used_[lane].first,
                                 static_cast<std::size_t>(used_[lane].end - used_[lane].first));
  }

  void exchange(Device& device, WorkerId, Lane lane, std::vector<MessageEnd> messages) override {
    const auto at = static_cast<std::size_t>(lane);
    auto* const stream = static_cast<cudaStream_t>(device.stream(lane));
    if (!stream) fail("--transport nccl needs --backend cuda");
    for (const MessageEnd& m : messages)
      for (std::size_t i = 0; i < m.piece.size(); ++i)
        if (m.bytes[i] > 0) used_[at].add(m.piece[i], m.bytes[i]);
    device.call(lane, [comm = lanes_[at], stream, messages = std::move(messages)] {
      comm->group([&] {
        for (const MessageEnd& m : messages)
          for (std::size_t i = 0; i < m.piece.size(); ++i) {
            const auto bytes = static_cast<std::size_t>(m.bytes[i]);
            const int peer = static_cast<int>(m.peer.value);  // worker and process have one number
            if (bytes == 0) continue;
            if (m.sends)
              comm->send(m.piece[i], bytes, peer, stream);
            else
              comm->receive(m.piece[i], bytes, peer, stream);
          }
      });
    });
  }

  void look() override {
    for (const auto& c : lanes_)
      if (c) c->look();
  }

  void give_up() override {
    std::vector<std::shared_ptr<Communicator>> all;
    for (const auto& c : lanes_)
      if (c) all.push_back(c);
    Communicator::abort_all(std::move(all));
  }

 private:
  // NCCL connects two processes at their first message.
  void warm_up(Communicator& comm, const std::set<std::pair<int, int>>& ways) {
    std::byte* memory = nullptr;
    cudaStream_t stream = nullptr;
    const int self = static_cast<int>(world_.rank());
    nccl::require(cudaMalloc(&memory, 2), "memory to warm up with");
    nccl::require(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "a stream");
    comm.group([&] {
      for (const auto& [from, to] : ways) {
        if (from == self) comm.send(memory, 1, to, stream);
        if (to == self) comm.receive(memory + 1, 1, from, stream);
      }
    });
    comm.wait_for(stream);
    cudaStreamDestroy(stream);
    cudaFree(memory);
    world_.gather("warm");
  }

  World& world_;
  const NcclOptions options_;
  std::array<std::shared_ptr<Communicator>, kMostLanes> lanes_;
  std::array<Range, kMostLanes> used_;
  bool registered_ = false;
};

}  // namespace

}  // namespace ringsched

extern "C" ringsched::Transport* ringsched_make_nccl_transport(
    const ringsched::Plan& plan, ringsched::Control& control, ringsched::World& world,
    const ringsched::NcclOptions& options) {
  return new ringsched::NcclTransport(plan, control, world, options);
}

extern "C" void ringsched_nccl_version(std::string& text) {
  text = ringsched::nccl::require_version();
}
