// Messages and collectives as work on streams.
#include <algorithm>
#include <cstring>

#include "support/emulated_cuda/faults.hpp"
#include "support/emulated_nccl/communicator.hpp"

namespace emulated {

namespace {

using Comm = std::shared_ptr<ncclComm>;
using Launched = std::shared_ptr<Operation>;

void remove(ncclComm& c, const Launched& op) { std::erase(c.operations, op); }

void begin(ncclComm& c, Operation& op) {
  op.begun = true;
  if (op.fails != ncclSuccess) {
    c.failed = op.fails;
    c.error = "injected";
  }
  if (c.failed != ncclSuccess) return;
  for (Transfer& t : op.transfers) {
    if (!t.from) continue;
    reads(t.from, t.bytes);
    t.number = ++c.links[static_cast<std::size_t>(t.peer)].sent;
    put_frame(c, t.peer, Frame::Message, op.kind, {static_cast<const char*>(t.from), t.bytes});
  }
}

void take(ncclComm& c, const Operation& op, Transfer& t) {
  auto& arrived = c.links[static_cast<std::size_t>(t.peer)].arrived;
  if (arrived.empty()) return;
  const Message m = std::move(arrived.front());
  arrived.pop_front();
  if (m.kind != op.kind || m.bytes.size() != t.bytes)
    finding("NCCL: rank " + std::to_string(c.rank) + " wants " + std::to_string(t.bytes) +
            " bytes from rank " + std::to_string(t.peer) + ", which sends " +
            std::to_string(m.bytes.size()) + (m.kind != op.kind ? " by another collective" : ""));
  t.arrived = m.bytes;
  put_frame(c, t.peer, Frame::Taken);
}

bool is_done(ncclComm& c, Operation& op) {
  if (!op.begun || c.failed != ncclSuccess) return false;
  move_frames(c);
  bool done = true;
  for (Transfer& t : op.transfers) {
    const Link& l = c.links[static_cast<std::size_t>(t.peer)];
    if (t.from) {
      done = done && (!op.waits_until_taken || l.taken >= t.number);
    } else {
      if (!t.arrived) take(c, op, t);
      done = done && t.arrived;
    }
    done = done && (l.out.empty() || l.lost);  // nobody calls when all is done
    if (!done && l.lost && c.sees_losses && c.failed == ncclSuccess) {
      c.failed = ncclRemoteError;
      c.error = "rank " + std::to_string(t.peer) + " is gone";
    }
  }
  return done;
}

void end(ncclComm& c, const Launched& op) {
  remove(c, op);
  bool first = true;
  for (const Transfer& t : op->transfers) {
    if (!t.to) continue;
    writes(t.to, t.bytes);
    auto* const to = static_cast<std::uint8_t*>(t.to);
    const auto* const from = reinterpret_cast<const std::uint8_t*>(t.arrived->data());
    if (op->kind == Kind::ReduceScatter && !first)
      std::transform(from, from + t.bytes, to, to, std::plus<std::uint8_t>());
    else
      std::memcpy(to, from, t.bytes);
    first = false;
  }
}

}  // namespace

ncclResult_t launch(const Comm& c, const Launched& op) {
  op->waits_until_taken = draw(4) != 0;
  const auto drop = [c, op] { remove(*c, op); };
  const Work begins = {"NCCL begins",
                       [c, op] {
                         if (!c->aborted) begin(*c, *op);
                       },
                       [c, op] { return c->aborted || c->operations.front() == op; }, drop};
  const Work ends = {"NCCL", [c, op] { c->aborted ? remove(*c, op) : end(*c, op); },
                     [c, op] { return c->aborted || is_done(*c, *op); }, drop};
  c->operations.push_back(op);
  const int current = std::exchange(this_thread().device, c->device);
  cudaError_t status = enqueue(op->stream, begins);
  if (status == cudaSuccess) status = enqueue(op->stream, ends);
  this_thread().device = current;
  if (status == cudaSuccess) return ncclSuccess;
  remove(*c, op);
  return ncclUnhandledCudaError;
}

}  // namespace emulated
