// A NCCL without a network and without GPUs, for tests: communicators over sockets between
// processes of one machine. Their messages are work on the streams of the emulated CUDA runtime
// (emulated_cuda.hpp). It has the rules of NCCL's documentation, and is as unhelpful as these
// allow:
//
// - Operations of a communicator follow each other in the order in which they were launched,
//   whatever stream they are on. Calls within a group are one operation: its messages move at once.
// - Messages between two ranks are matched by order alone. Another order waits for ever; another
//   size is a finding, since NCCL then hangs or writes anywhere.
// - A message may count as sent at once, or only when the other side has taken it. A seed decides.
// - Without blocking a call returns ncclInProgress, and nothing is on the stream until
//   ncclCommGetAsyncError says so.
// - Communicators see in half of the cases that a process is gone (ncclRemoteError), as over a
//   network, and otherwise wait for ever, as over NVLink.
// - Two ranks cannot have one GPU of one host (NCCL_HOSTID).
// - Aborting ends the operations of a communicator, and returns when the streams have left them
//   behind: several that wait for each other have to be aborted as a group.
//
// RINGSCHED_EMULATED_FAULTS has errors of these calls, too, with the codes of ncclResult_t;
// "later:ncclGroupEnd#2=6" is an asynchronous error, when the stream comes to what the call put
// there.
#pragma once

#include <nccl.h>

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "support/emulated_cuda/state.hpp"

namespace emulated {

// What one call sends to a rank, or receives from it.
struct Transfer {
  int peer = 0;
  const void* from = nullptr;  // or
  void* to = nullptr;
  std::size_t bytes = 0;
  std::uint64_t number = 0;  // of a message among those to the peer
  std::optional<std::string> arrived = {};
};

enum class Kind : std::uint32_t { Messages, AllGather, ReduceScatter };

// What a group has put on one communicator.
struct Operation {
  Kind kind = Kind::Messages;
  std::vector<Transfer> transfers;
  cudaStream_t stream = nullptr;
  bool begun = false, waits_until_taken = true;
  ncclResult_t fails = ncclSuccess;  // when it begins
};

enum class Frame : std::uint32_t { Hello = 1, Message, Taken, Leaves };

struct Message {
  Kind kind;
  std::string bytes;
};

// To another rank of a communicator, or to itself.
struct Link {
  int fd = -1;
  std::string in, out;   // bytes that came and that have to go
  std::size_t gone = 0;  // of these
  std::deque<Message> arrived;
  std::uint64_t sent = 0, taken = 0;  // messages, by the peer
  std::string gpu;                    // of the peer, with its host
  bool leaves = false, lost = false;  // the peer
};

}  // namespace emulated

struct ncclComm {
  int rank = 0, size = 1, device = 0;
  bool blocking = true, sees_losses = true;
  std::string id, error;
  int listener = -1;
  std::vector<emulated::Link> links;                            // by rank
  std::deque<std::shared_ptr<emulated::Operation>> operations;  // the first is at work
  ncclResult_t failed = ncclSuccess;
  bool introduced = false, leaving = false, aborted = false;
  // What a call has begun: how often to say that it is under way, whether it can end, and how.
  unsigned polls = 0;
  std::function<bool()> can_end;
  std::function<ncclResult_t()> end;
};

namespace emulated {

// Sockets. Nothing here waits.
void listen_for_peers(ncclComm&);
bool has_all_peers(ncclComm&);
void move_frames(ncclComm&);
void put_frame(ncclComm&, int peer, Frame, Kind = Kind::Messages, const std::string& bytes = {});
void close_all(ncclComm&);

// Puts it on its stream.
ncclResult_t launch(const std::shared_ptr<ncclComm>&, const std::shared_ptr<Operation>&);

}  // namespace emulated
