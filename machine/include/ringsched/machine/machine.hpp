// A machine as the simulator sees it: devices in nodes, the links between them, how fast kernels
// run, and what communication takes from them. Plain data, read from a TOML profile
// (docs/machines.md); each group of numbers has its source.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ringsched/scheduler/exchange_form.hpp"
#include "ringsched/scheduler/problem.hpp"

namespace ringsched {

constexpr double kMostNoise = 0.25;  // what `noise` may be

// What one message of this many bytes achieves when it is alone.
struct MessageRate {
  double bytes = 0;
  double gb_per_s = 0;

  bool operator==(const MessageRate&) const = default;
};

// A link between two places: how long before the first byte moves, how fast the rest follows, and
// how much slower a short message is.
struct LinkFigures {
  double gb_per_s = 0;                // each direction
  double latency_us = 0;              // before the first byte arrives, however short the message
  std::vector<MessageRate> messages;  // by ascending size; empty: only latency and rate count

  bool operator==(const LinkFigures&) const = default;
};

enum class Fabric : std::uint8_t {
  Free,    // communication costs nothing: the block model
  Switch,  // each device has a link to a switch and one back
  Mesh,    // a private link each way between every two devices
  Pcie,    // devices under PCIe switches, those under the host
  Memory,  // workers share one memory, and its bandwidth
};

struct FabricFigures {
  Fabric kind = Fabric::Free;
  LinkFigures link;              // of one device
  double channel_gb_per_s = 0;   // of one channel of NCCL, see link_among; 0: not by channels
  std::uint32_t channels = 32;   // of a communicator, each a thread block on an SM
  double more_channels = 1;      // times as many for a message as NCCL gives it: "what if"
  double core_gb_per_s = 0;      // Switch: all traffic of a node together; 0: no limit
  std::uint32_t per_switch = 0;  // Pcie: devices under one switch
  double uplink_gb_per_s = 0;    // Pcie: between a switch and the host, each direction
  double host_gb_per_s = 0;      // Pcie: all traffic through the host together; 0: no limit
  double spread = 0;             // of these figures, as a share; 0: as usual
  std::string source;

  bool operator==(const FabricFigures&) const = default;
};

struct NetworkFigures {         // between nodes
  std::uint32_t nics = 0;       // per node, shared by its devices in order
  LinkFigures link;             // of one NIC
  double oversubscription = 1;  // of the core: 2 means half of what the NICs could send
  double spread = 0;            // of these figures, as a share; 0: as usual
  std::string source;

  bool operator==(const NetworkFigures&) const = default;
};

enum class TileShape : std::uint8_t { Full, Causal };

// How an attention kernel is cut into blocks, each for one SM. Lengths are in keys: the time that
// one block alone on an SM takes for one key.
struct BlockFigures {
  std::uint32_t rows = 0;          // of queries (of keys, backward); 0: as the machine says
  std::uint32_t keys = 0;          // a block takes its keys in blocks of this many; 0: any number
  double overhead_keys = 0;        // before its first key and after its last
  std::uint32_t per_sm = 1;        // blocks that an SM runs side by side, 1 or 2
  double shared_rate = 1;          // of each of two, relative to one alone
  bool longest_first = false;      // else head by head, in order
  bool splits_keys = false;        // among several blocks, if there are few
  std::uint32_t split_keys = 128;  // then a block takes this many at a time; the kernel says it
  // The kernel decides beforehand which SM computes which blocks: of n SMs, each takes every n-th.
  bool dealt = false;

  bool operator==(const BlockFigures&) const = default;
};

// When a kernel deals its blocks to the SMs beforehand. Otherwise an SM that is free takes the
// next.
enum class DealsBlocks : std::uint8_t { Never, Unpacked, Always };

// TFLOP/s of attention, by the number of tokens of a square problem of `heads` heads (times batch).
struct KernelTable {
  std::string library;  // "" if the machine has but one
  bool backward = false;
  TileShape shape = TileShape::Full;
  std::vector<Dtype> dtypes;
  std::uint32_t head_dim = 128;
  // The head dimensions that the library has kernels for, in order; others are filled up to the
  // next. Empty: all.
  std::vector<double> pads_head_dim_to;
  std::vector<double> tokens;
  std::vector<double> tflops;
  // What the device keeps up when it works without pause, as its power is limited; 0: as much.
  double sustained_tflops = 0;
  std::vector<double> heads;  // times batch, at each point; empty: enough to fill the device
  std::uint32_t heads_per_key_head = 1;  // when it was measured
  BlockFigures blocks;
  DealsBlocks deals_blocks = DealsBlocks::Never;
  bool overlaps_exp = false;  // computes exponentials beside matrix products, not between them
  // Backward, query heads that share a key head add their gradients to one fp32 sum. Otherwise each
  // writes its own, and two more kernels add them.
  bool adds_groups = false;
  // Forward, for packed sequences: a block has the rows of all query heads that share a key head.
  bool packs_groups = false;
  double packed_factor = 0;     // of the times of packed sequences to these; 0: as usual
  double documents_spread = 0;  // of tiles that packed documents cut; 0: as usual
  double spread = 0;            // standard deviation of its rates, as a share; 0: as usual
  std::string source;

  // The head dimension that the library computes for this one.
  double padded(std::uint32_t dim) const {
    const auto at = std::ranges::lower_bound(pads_head_dim_to, static_cast<double>(dim));
    return at == pads_head_dim_to.end() ? dim : *at;
  }

  bool operator==(const KernelTable&) const = default;
};

// What exchanges of one kind achieve alone, as nccl-tests counts: bus bandwidth by size. The size
// is what each member gets in the end (all-gather), has at first (reduce-scatter, all-reduce) or
// has for all members, itself included (all-to-all).
struct CollectiveTable {
  ExchangeForm kind = ExchangeForm::Other;
  std::uint32_t per_node = 0;  // members in each node
  std::uint32_t nodes = 1;
  std::uint32_t groups = 1;  // this many at once, each among other workers of the same nodes
  std::vector<MessageRate> busbw;
  double spread = 0;  // of its rates, beyond that of the links, as a share; 0: none
  std::string source;

  bool operator==(const CollectiveTable&) const = default;
};

// Out of that size, the bytes that each of this many members moves.
constexpr double moved_share(ExchangeForm kind, double members) {
  return (kind == ExchangeForm::AllReduce ? 2 : 1) * (members - 1) / members;
}

// When a host waits until its device has done all that it was given: never, after each exchange,
// or before each step. Or before the first kernel of each step, when it has posted that step's
// messages, for which it does not wait.
enum class Synchronises : std::uint8_t { Never, Exchanges, Steps, Kernels };

// How long a worker's host thread takes to issue work to its device, in program order. The host
// runs ahead of the device, but nothing starts before it has been issued.
struct HostFigures {
  double call_us = 0, call_backward_us = 0;  // of a pass, before it issues anything
  double attend_us = 0, attend_backward_us = 0;
  double merge_us = 0;  // of two partial results
  double slice_us = 0;  // additional, for a merge into, or a backward attend of, a part of a share
  double pass_us = 0;   // of any other pass over memory: a sum, a cast, a copy
  double post_us = 0;   // of a group of sends and receives
  double exchange_us = 0;  // of an exchange
  // At the start of each step, or after its wait, for everything else that the library does there.
  double step_us = 0;
  Synchronises synchronises = Synchronises::Never;
  double synchronise_us = 0;  // from the end of the device's work until the host goes on
  // The whole plan is one CUDA graph, which takes `graph_us` to launch, and `graph_node_us` more
  // for each of its nodes. Then the times of single calls do not count. 0: no graph.
  double graph_us = 0, graph_node_us = 0;
  double spread = 0;  // standard deviation of each kind of call, as a share; 0: as usual
  std::string source;

  bool issues_in_no_time() const {
    return synchronises == Synchronises::Never &&
           std::max({call_us, call_backward_us, attend_us, attend_backward_us, merge_us, slice_us,
                     pass_us, post_us, exchange_us, step_us, graph_us}) <= 0;
  }
  bool operator==(const HostFigures&) const = default;
};

// What a library does around its kernels, in passes over memory: bytes per element of the result.
struct SoftwareFigures {
  double merge_bytes = 12;   // fp32 result and partial read, result written
  double reduce_bytes = 12;  // likewise of gradients
  double prepare_bytes = 4;  // O and dO read
  double output_bytes = 0;   // a last cast of the result
  double slice_bytes = 0;    // additional bytes of a merge into a slice of a share
  std::uint32_t merge_launches = 1;
  double merge_per_clock = 0;  // elements that a merge makes in a clock of an SM; 0: no limit
  // Copies around each attend, in bytes per element of its queries, and of its keys and values.
  double attend_bytes = 0, attend_key_bytes = 0;
  double attend_backward_bytes = 0, attend_backward_key_bytes = 0;
  std::uint32_t attend_launches = 0;
  double attend_per_clock = 0;  // elements that these copies move in a clock of an SM; 0: no limit
  double attend_factor = 1;     // of its kernels' times to those of the tables
  bool packed = false;          // it calls the kernels for packed sequences of any lengths
  // Its backward kernels compute what the mask hides, too: for each of this many parts of a tile's
  // rows, all keys up to the last that the part sees. 0: they skip it.
  std::uint32_t backward_fills = 0;
  bool packs_all = false;     // copies around an all-to-all move what stays with its worker, too
  double pack_per_clock = 0;  // elements that such a copy moves in a clock of an SM; 0: no limit
  // Transfers that become ready with an attend get their SMs before it.
  bool posts_first = false;
  bool one_stream = false;  // transfers of a worker go one after the other, on whatever lanes
  bool pair_communicators = false;  // one for each two workers, so a message gets more channels
  // Keys and values, say, may be this many tensors of one posted message. NCCL then chooses
  // channels by the size of each, and they share these.
  std::uint32_t message_tensors = 1;
  bool tensors_apart = false;   // keys and values, and their gradients, travel one after the other
  bool sends_rounded = false;   // partial results and gradients: as inputs, not in fp32
  bool free_transfers = false;  // transfers wait for their data, but not for earlier kernels
  // Rings send keys all the way round, and gradients back, even where nobody reads them any more.
  bool sends_all = false;
  HostFigures host;
  std::string kernels;    // the attention kernels that it calls, if its machine has a choice
  std::string schedules;  // those that it has itself, in words
  double spread = 0;      // standard deviation of what these bytes take, as a share; 0: as usual
  std::string source;

  bool operator==(const SoftwareFigures&) const = default;
};

struct Machine {
  std::string name;
  std::string summary;
  std::vector<std::string> bases;  // names of the profiles that it extends, the first one first
  std::string made_by;             // the command that measured it; empty: it was written by hand
  std::string library;             // whose kernels to use, if there are tables of several libraries
  bool ideal = false;  // the block model: a full block of the layout takes 1 us, the rest nothing

  std::uint32_t nodes = 1;
  std::uint32_t devices_per_node = 1;
  std::uint32_t sms = 0;                 // 0: kernels are not made of waves of blocks
  std::uint32_t block_rows = 128;        // of queries that one SM works on
  double clock_ghz = 0;                  // of an SM, at the peak of its datasheet; 0: not known
  double flops_per_clock = 0;            // of matrix products, by one SM; 0: not known
  double exps_per_clock = 16;            // exponentials, likewise
  std::uint32_t workers_per_device = 1;  // at most; they share its time
  std::uint32_t concurrency = 1;         // kernels that one device runs side by side
  bool turns = false;                    // those beyond it wait for their turn, or all share it
  double full_slowdown = 1;              // of a kernel, when that many run, over one alone
  double devices_spread = 0;  // standard deviation of their speeds, as a share; 0: as usual
  std::string devices_source;

  double memory_gb = 0;        // of a device, in GiB; 0: not known
  double memory_gb_per_s = 0;  // what a pass over device memory achieves
  double memory_change = 1;    // of that, after the kernel tables were measured: "what if"
  std::string memory_source;
  double launch_us = 0;  // before each kernel
  std::string launch_source;

  // Communication that runs on SMs holds `comm_sms` of them from its posting until it is complete,
  // slows the kernel beside it by `comm_slowdown`, and may have to wait for a kernel that is
  // already running. Copies by the processor take `comm_cores` of a device's `concurrency` while
  // they move.
  std::uint32_t comm_sms = 0;
  bool comm_sms_set = false;  // for a "what if": whatever the number of channels
  std::uint32_t comm_cores = 0;
  double comm_slowdown = 1;
  bool comm_waits_for_kernel = false;
  std::string comm_source;

  // How much durations differ from run to run and from worker to worker: their standard deviation,
  // as a share of them.
  double noise = 0;
  std::string noise_source;

  FabricFigures fabric;
  NetworkFigures network;
  std::vector<KernelTable> kernels;
  std::vector<CollectiveTable> collectives;
  SoftwareFigures software;

  std::uint32_t devices() const { return nodes * devices_per_node; }
  // Of a merge, and of a pack, per element: what it moves, or as many as memory moves meanwhile if
  // the SMs are slower.
  double merge_bytes() const { return limited(software.merge_bytes, software.merge_per_clock); }
  double pack_bytes(double moved) const { return limited(moved, software.pack_per_clock); }
  double limited(double bytes, double per_clock) const {
    const double rate = per_clock * clock_ghz * sms;  // elements per ns
    return rate > 0 ? std::max(bytes, memory_gb_per_s / rate) : bytes;
  }
  bool operator==(const Machine&) const = default;
};

// Throws Error if figures are missing, negative or contradict each other.
void require_valid(const Machine&);

// The names that Machine::library may take.
// The link as messages find it in a communicator of this many ranks of a node. With
// `channel_gb_per_s`, their rates follow from the number of channels that NCCL gives each peer.
// Then a message may be several tensors that share its channels.
LinkFigures link_among(const FabricFigures&, std::uint32_t ranks, std::uint32_t tensors = 1);
// How many channels a tensor has then.
std::uint32_t channels_of(const FabricFigures&, std::uint32_t ranks, double bytes);
// Do they limit messages at all? A table of messages says more.
inline bool has_channels(const FabricFigures& f) {
  return f.channel_gb_per_s > 0 && f.link.messages.empty();
}
// Twice the bandwidth, half the start-up: (2, 0.5). What a message of the table takes beyond its
// bytes over the link is start-up.
void scale(LinkFigures&, double bandwidth, double latency);
std::vector<std::string_view> kernel_libraries(const Machine&);
// TFLOP/s of one device; 0: not known.
double peak_tflops(const Machine&);
// Whether the table says clearly more than that, as one of another GPU does. (Clocks may be above
// those of the datasheet.)
bool is_above_peak(const Machine&, const KernelTable&);

// Throws Error, beginning with `name` and the line, for anything that is not a machine profile.
// `name` is the path of the file, if there is one; a `base` that is a path is relative to its
// folder.
Machine read_machine(std::string_view toml, std::string_view name);

// The same, but with all errors, one per line; no machine if there are any.
struct CheckedProfile {
  std::vector<std::string> errors;
  std::optional<Machine> machine;
};
CheckedProfile check_machine(std::string_view toml, std::string_view name);

// The profile as TOML, after `comments` (one per line), which reads as the same machine. Throws
// Error for a machine that no profile can describe, such as one with figures without a source.
std::string to_toml(const Machine&, const std::vector<std::string>& comments = {});

struct MachineProfile {
  std::string_view name;
  std::string_view toml;
};
// The profiles that come with ringsched.
std::vector<MachineProfile> machine_profiles();

// A profile's name, or the path of a TOML file. Throws Error naming the nearest.
bool is_machine_file(std::string_view name_or_path);  // it has a '/' or ends in ".toml"
Machine find_machine(const std::string& name_or_path);

// What libraries do around their kernels, by name or path, to replace what a machine's profile
// says.
std::vector<MachineProfile> software_profiles();
std::string summary_of(const MachineProfile&);  // its key of that name
SoftwareFigures find_software(const std::string& name);
SoftwareFigures read_software(std::string_view toml, std::string_view name);  // as read_machine
struct CheckedLibrary {
  std::vector<std::string> errors;
  std::optional<SoftwareFigures> software;
};
CheckedLibrary check_software(std::string_view toml, std::string_view name);  // as check_machine
// Is this the file of a library, not of a machine? It has figures of a library alone, or is based
// on one.
bool is_software(std::string_view toml, std::string_view name);

}  // namespace ringsched
