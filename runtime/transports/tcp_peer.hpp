// The state of a peer that this process exchanges messages with.
#pragma once

#include <condition_variable>
#include <deque>
#include <string>
#include <vector>

#include "rendezvous/socket.hpp"
#include "ringsched/runtime/transport.hpp"

namespace ringsched {

// Messages that a lane waits for together.
struct TcpGroup {
  std::vector<MessageEnd> here, elsewhere;
  std::size_t open = 0;  // messages that are not complete; guarded by the transport
  std::condition_variable complete;
};

// A message in flight, and its progress.
struct TcpTransfer {
  TcpGroup* group = nullptr;
  const MessageEnd* message = nullptr;
  std::size_t matrix = 0;
  std::int64_t at = 0, left = 0;  // of the matrix; of all
  bool awaited = false;           // the receiver is ready for it

  TcpTransfer(TcpGroup& g, const MessageEnd& m) : group(&g), message(&m) {
    for (const std::int64_t b : m.bytes) left += b;
    skip();
  }
  std::byte* place() const { return message->piece[matrix] + at; }
  std::int64_t contiguous() const { return message->bytes[matrix] - at; }
  void advance(std::int64_t bytes) {
    at += bytes;
    left -= bytes;
    skip();
  }
  // Of as many bytes, from here on.
  std::uint32_t checksum(std::int64_t bytes) const;

 private:
  void skip() {
    while (left > 0 && at == message->bytes[matrix]) {
      ++matrix;
      at = 0;
    }
  }
};

struct TcpPeer {
  std::uint32_t rank = 0;
  Socket socket;
  // What it sends: a header that has begun, or the rest of a piece.
  std::string in;
  TcpTransfer* into = nullptr;
  std::int64_t expected = 0;                  // bytes of the piece
  std::uint32_t checksum = 0, announced = 0;  // of the piece so far; as its header says
  // What it gets: headers that go before the next piece, those that go now, and messages, of which
  // the first one's piece has some bytes to go.
  std::string out, head;
  std::deque<TcpTransfer*> sends;
  std::int64_t piece = 0;

  bool has_something_to_send() const { return !out.empty() || !head.empty() || !sends.empty(); }
};

}  // namespace ringsched
