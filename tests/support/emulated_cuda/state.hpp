// The state of the emulated runtime. One lock guards all of it.
#pragma once

#include <cuda.h>
#include <cuda_runtime.h>

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "support/emulated_cuda/emulated_cuda.hpp"

namespace emulated {

using Lock = std::unique_lock<std::recursive_mutex>;

// Work on one chain (a stream, or a branch of a graph) happens in its order. The past of a point is
// how much of each chain has happened before it, and a clock that counts, and measures nothing.
struct Past {
  std::vector<std::uint32_t> seen;  // by chain
  double ns = 0;

  void join(const Past&);
  bool has(std::uint32_t chain, std::uint32_t position) const {
    return chain < seen.size() && seen[chain] >= position;
  }
};

// What an event holds of one time that it was recorded.
struct Record {
  bool done = false, in_graph = false;
  std::uint32_t chain = 0, position = 0;  // where that was; position 0: an error came before it
  Past past;
};

struct Op {
  Work work;
  std::shared_ptr<Record> waits, records;
  std::shared_ptr<const Past> host;  // what the host knew when it submitted this
  cudaError_t fails = cudaSuccess;   // an injected error of its execution
  bool timed = true;                 // takes time by the emulated clock
  const void* watches = nullptr;     // memory that it waits for
};

struct Event;

// A captured stream is a branch of the graph.
struct Node {
  Op op;
  std::size_t branch;
  std::vector<std::size_t> after;   // nodes
  std::shared_ptr<Event> external;  // recorded by it
};

struct Stream;

struct Capture {
  std::shared_ptr<Stream> origin;
  std::vector<std::shared_ptr<Stream>> branches;
  std::vector<Node> nodes;
  std::thread::id thread;
  cudaStreamCaptureMode mode;
  bool invalid = false;
};

struct Graph {
  std::vector<Node> nodes;
  std::size_t branches = 0;
  std::vector<std::uint32_t> chains;  // by branch, of an executable graph
  int device = 0;
  bool uploaded = false;
};

struct Part {  // of a GPU's multiprocessors
  int device = 0;
  unsigned first = 0, count = 0;
  bool alive = true;
};

struct Stream {
  int number = 0, device = 0;
  bool blocking = false;  // waits for the default stream, and that for it
  bool destroyed = false;
  std::shared_ptr<Part> part;
  std::uint32_t chain = 0;
  Past past;
  std::deque<Op> queue;
  std::shared_ptr<Capture> capture;
  std::vector<std::size_t> last;  // nodes of the capture that come next before whatever follows
};

struct Event {
  int device = 0;
  bool has_time = true;
  std::shared_ptr<Record> latest;
  std::shared_ptr<Capture> capture;
  std::vector<std::size_t> nodes;
};

// Few, so that small problems make more than one round of a grid.
constexpr unsigned kMultiprocessors = 18;

struct Device {
  std::size_t used = 0;
  cudaError_t broken = cudaSuccess;  // an error that stays
  cudaError_t late = cudaSuccess;    // one that is told once
  std::set<int> peers;
  std::shared_ptr<Stream> legacy;  // the default stream
  std::shared_ptr<Part> whole;
  Past ended;  // of streams that are destroyed
};

struct State {
  std::recursive_mutex guard;
  std::mt19937_64 dice;
  std::vector<Device> devices;
  std::vector<std::shared_ptr<Stream>> streams;
  std::unordered_map<cudaStream_t, std::shared_ptr<Stream>> stream_handles;
  std::unordered_map<cudaEvent_t, std::shared_ptr<Event>> event_handles;
  std::unordered_map<cudaGraph_t, std::shared_ptr<Graph>> graph_handles;
  std::unordered_map<cudaGraphExec_t, std::shared_ptr<Graph>> exec_handles;
  std::unordered_map<CUgreenCtx, std::shared_ptr<Part>> part_handles;
  std::vector<std::shared_ptr<Capture>> captures;
  std::size_t starved = ~std::size_t{0};  // the stream that does nothing while any other can
  std::uintptr_t next_handle = 0x1000;
  std::shared_ptr<const Past> host;             // never null
  std::vector<std::uint32_t> positions;         // by chain: of its last op
  std::vector<std::uint32_t> retired;           // chains that nobody uses
  std::map<std::string, std::uint64_t> counts;  // of calls, and of work done
};

State& state();
int environment(const char* name, int otherwise);

// Of this thread.
struct Thread {
  int device = 0;
  cudaError_t last = cudaSuccess;
  bool in_work = false;
};
Thread& this_thread();

// Streams. A null handle is the default stream of the current GPU.
std::shared_ptr<Stream> stream_of(cudaStream_t);
std::shared_ptr<Stream> make_stream(int device, bool blocking, std::shared_ptr<Part>);
cudaStream_t handle_of(std::shared_ptr<Stream>);
std::uint32_t make_chain();
void retire_chain(std::uint32_t);

// Puts an op on a stream, or into its capture.
cudaError_t put(const std::shared_ptr<Stream>&, Op);
// Does one op of some stream; false: none can go on, or none wants to while nobody waits.
bool step(bool somebody_waits = true);
void some_steps(std::uint64_t most);
bool idle(int device);
void host_knows_all_of(int device);
// Goes on until `done`; other threads may call meanwhile. A finding where that never comes.
void wait_until(Lock&, const std::function<bool()>& done, const char* what);
void host_knows(const Past&);
// One op, of a stream or a graph. Its past is joined with that of the op.
void perform(Op&, Stream&, std::uint32_t chain, Past&);
void drop_work(int device);

// Captures.
std::shared_ptr<Capture> capture_of_this_thread();
cudaError_t add_node(const std::shared_ptr<Stream>&, Op, std::shared_ptr<Event> external);

std::uintptr_t next_handle();

}  // namespace emulated
