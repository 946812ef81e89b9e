// What a plan's tasks cost on a machine, before anything is shared.
#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "engines.hpp"
#include "exchange_prices.hpp"
#include "host.hpp"
#include "kernel_time.hpp"
#include "ringsched/scheduler/error.hpp"
#include "ringsched/scheduler/exchange.hpp"
#include "ringsched/scheduler/plan_tables.hpp"
#include "ringsched/simulator/simulate.hpp"
#include "ringsched/simulator/uncertainty.hpp"
#include "slowest_device.hpp"

namespace ringsched {

namespace {

constexpr double kBlockPs = 1e6;  // a full block of the block model takes 1 us

// How much of a tile is computed.
double visible_share(const Work& work, double diagonal) {
  switch (work.form) {
    case TileForm::Empty:
      return 0.0;
    case TileForm::Full:
      return 1.0;
    case TileForm::Causal:
    case TileForm::StrictlyCausal:
      return diagonal;
    case TileForm::Other:
      break;
  }
  return static_cast<double>(work.pairs.value) /
         (static_cast<double>(work.rows) * static_cast<double>(work.keys));
}

// If chunks of several workers meet in one attend, and the mask is neither full nor causal for all
// of it, each pair of chunks is a tile.
double blocks_by_chunks(const Plan& plan, Region queries, Region keys, double diagonal) {
  const auto share = [&](std::uint32_t chunk) {
    return 1.0 / plan.layout.share(plan.layout.owner({chunk})).count;
  };
  double sum = 0;
  for (std::uint32_t q = queries.first.value; q < queries.end(); ++q)
    for (std::uint32_t k = keys.first.value; k < keys.end(); ++k) {
      const Tile t =
          plan.problem.mask.tile(plan.layout.ranges({{q}, 1}), plan.layout.ranges({{k}, 1}));
      if (t.form == TileForm::Empty) continue;
      sum += visible_share(work_of(t, 1), diagonal) * share(q) * share(k);
    }
  return sum;
}

// The block model: a tile costs its share of a block, whatever the number of its tokens. Equal work
// is usually an equal share of a block; if not, tasks have prices of their own.
void price_blocks(Workload& out, double diagonal) {
  const Plan& plan = *out.plan;
  const std::size_t works = plan.works.size();
  std::vector<double> shares;      // by region: of all that its owner has
  std::vector<bool> of_one_owner;  // likewise
  // In decoding, the new tokens are the only queries.
  const Region new_rows = query_rows(plan.problem, plan.layout, {0});
  for (const Region& r : plan.regions) {
    const Region all = plan.layout.share(plan.layout.owner(r.first));
    shares.push_back(static_cast<double>(r.count) / all.count);
    of_one_owner.push_back(all.contains(r));
  }
  std::vector<double> visible;
  for (const Work& w : plan.works) visible.push_back(visible_share(w, diagonal));
  std::map<std::pair<RegionId, RegionId>, double> blocks_of;  // of such tiles
  const auto blocks = [&](const Task& t) {
    const RegionId queries = plan.rows(t), keys = t.keys;
    const bool by_chunks = plan.works[t.work.value].form == TileForm::Other &&
                           !(of_one_owner[queries.value] && of_one_owner[keys.value]);
    const double rows = plan.problem.decodes()
                            ? 1.0 * plan.regions[queries.value].count / new_rows.count
                            : shares[queries.value];
    if (!by_chunks) return visible[t.work.value] * rows * shares[keys.value];
    const auto [known, is_new] = blocks_of.try_emplace({queries, keys});
    if (is_new)
      known->second =
          blocks_by_chunks(plan, plan.regions[queries.value], plan.regions[keys.value], diagonal);
    return known->second;
  };
  const auto price_of = [&](const Task& t) {
    const double heads =
        static_cast<double>(plan.works[t.work.value].columns) / plan.wanted_heads();
    return rounded_ps(blocks(t) * heads * kBlockPs);
  };

  std::vector<bool> known(out.compute.size());
  const bool alike = std::all_of(plan.tasks.begin(), plan.tasks.end(), [&](const Task& t) {
    if (!is_attend(t.kind)) return true;
    const std::size_t at = static_cast<std::size_t>(t.kind) * works + t.work.value;
    if (!known[at]) out.compute[at] = price_of(t);
    known[at] = true;
    return out.compute[at] == price_of(t);
  });
  if (alike) return;
  out.amounts.resize(plan.tasks.size());
  for (std::size_t id = 0; id < plan.tasks.size(); ++id)
    if (is_attend(plan.tasks[id].kind)) out.amounts[id] = price_of(plan.tasks[id]);
}

double pass_ps(const Machine& m, double elements, double bytes_per_element,
               std::uint32_t launches) {
  const double moved =
      m.memory_gb_per_s > 0 ? elements * bytes_per_element / (m.memory_gb_per_s * 1e-3) : 0;
  return moved + launches * m.launch_us * 1e6;
}

// What prices depend on.
struct Pricing {
  const Plan& plan;
  const Machine& machine;
  const KernelTimes& kernels;
};

double query_elements(const Pricing& p, const Work& w) {
  return static_cast<double>(w.rows) * w.columns * p.plan.problem.head_dim;
}
double fp32_elements(const Work& w) { return static_cast<double>(w.bytes.value) / 4; }

template <bool Backward>
double attend_ps(const Pricing& p, const Work& w) {
  const double ps = p.plan.problem.decodes() ? p.kernels.decode_ps(w) : p.kernels.ps(w, Backward);
  const SoftwareFigures& s = p.machine.software;
  const double keys = 2.0 * static_cast<double>(w.keys) * p.plan.problem.head_dim * w.columns *
                      p.plan.problem.kv_heads / p.plan.problem.heads;
  const double bytes =
      query_elements(p, w) * (Backward ? s.attend_backward_bytes : s.attend_bytes) +
      keys * (Backward ? s.attend_backward_key_bytes : s.attend_key_bytes);
  const auto copied = 2.0 * static_cast<double>(size_of(p.plan.problem.dtype));  // read and written
  const double moves = p.machine.limited(copied, s.attend_per_clock) / copied;
  return ps + (bytes > 0 ? pass_ps(p.machine, bytes, moves, s.attend_launches) : 0);
}
double prepare_ps(const Pricing& p, const Work& w) {
  const double bytes = p.machine.software.prepare_bytes;
  return bytes > 0 ? pass_ps(p.machine, query_elements(p, w), bytes, 1) : 0;
}
double merge_ps(const Pricing& p, const Work& w) {
  const SoftwareFigures& s = p.machine.software;
  return pass_ps(p.machine, query_elements(p, w), p.machine.merge_bytes(), s.merge_launches);
}
double reduce_ps(const Pricing& p, const Work& w) {
  return pass_ps(p.machine, fp32_elements(w), p.machine.software.reduce_bytes, 1);
}
double output_ps(const Pricing& p, const Work& w) {
  const double bytes = p.machine.software.output_bytes;
  if (!(bytes > 0)) return 0;
  // A partial's log-sum-exp is not part of the result.
  const bool partial = w.bytes == p.plan.program.bytes(attention::kPartial, {w.rows}, w.columns);
  return pass_ps(p.machine, partial ? query_elements(p, w) : fp32_elements(w), bytes, 1);
}

// All members of a repack are done at once, at the price of the first.
double member_ps(const Pricing&, const Work&) { return 0; }

// How many times longer a kernel takes beside this many transfers that hold SMs.
template <bool Backward>
double attend_slowed(const Pricing& p, const Work& w, std::uint32_t groups) {
  return p.kernels.slowed(w, Backward, groups);
}
double pass_slowed(const Pricing& p, const Work&, std::uint32_t) { return p.machine.comm_slowdown; }

// Each computing operation has a row; links price messages.
constexpr struct Price {
  TaskKind op;
  double (*ps)(const Pricing&, const Work&);
  double (*slowed)(const Pricing&, const Work&, std::uint32_t groups);
} kPrices[] = {
    {TaskKind::Attend, attend_ps<false>, attend_slowed<false>},
    {TaskKind::AttendBackward, attend_ps<true>, attend_slowed<true>},
    {TaskKind::Prepare, prepare_ps, pass_slowed},
    {TaskKind::Merge, merge_ps, pass_slowed},
    {TaskKind::Reduce, reduce_ps, pass_slowed},
    {TaskKind::Output, output_ps, pass_slowed},
    {TaskKind::Round, output_ps, pass_slowed},
    {TaskKind::Repack, member_ps, pass_slowed},
};

// The bytes of a message; plans send partial results and gradients in fp32.
std::int64_t sent_bytes(const Plan& plan, const Task& send, const SoftwareFigures& s) {
  const Work& w = plan.works[send.work.value];
  const std::int64_t saved = 4 - size_of(plan.problem.dtype);
  if (!s.sends_rounded || saved == 0) return w.bytes.value;
  switch (plan.program[plan.value(send)].type) {
    case TypeId::RowsSum:
    case TypeId::KeysValuesSum:
      return w.bytes.value / 4 * (4 - saved);
    case TypeId::Softmax:  // its log-sum-exps stay as they are
      return w.bytes.value - w.rows * w.columns * plan.problem.head_dim * saved;
    default:
      return w.bytes.value;
  }
}

// Does the work of each task alone give its price?
bool go_by_work(const Plan& plan, const SoftwareFigures& s) {
  if (s.slice_bytes > 0 || !plan.repacks.empty()) return false;
  return std::none_of(plan.tasks.begin(), plan.tasks.end(), [&](const Task& t) {
    return is_send(t.kind) ? sent_bytes(plan, t, s) != plan.works[t.work.value].bytes.value
                           : s.output_bytes > 0 && is_output(t.kind) && is_rounded(plan, t);
  });
}

// A repack reads and writes what it copies; what it adds up is priced like merges and reductions.
std::int64_t repack_ps(const Plan& plan, const Exchange& repack, const Machine& m) {
  const ValueId value = plan.value(plan.tasks[repack.first.value]);
  Bytes moved;
  for (const Share& s : shares_of(plan, repack))
    moved = capped_sum(moved, plan.program.bytes(value, plan.layout.rows(s.rows), s.columns.count));
  const double elements = static_cast<double>(moved.value) / 4;
  const SoftwareFigures& s = m.software;
  if (!adds_up(plan, repack)) return rounded_ps(pass_ps(m, elements, 8, 1));
  return rounded_ps(plan.program.type(value).algebra == Algebra::Softmax
                        ? pass_ps(m, elements, m.merge_bytes(), s.merge_launches)
                        : pass_ps(m, elements, s.reduce_bytes, 1));
}

// Prices by task, if a task's work alone does not give them.
void price_tasks(Workload& out, const Machine& m) {
  const Plan& plan = *out.plan;
  const std::size_t works = plan.works.size();
  out.amounts.resize(plan.tasks.size());
  for (std::size_t id = 0; id < plan.tasks.size(); ++id) {
    const Task& t = plan.tasks[id];
    const Work& w = plan.works[t.work.value];
    if (is_send(t.kind)) {
      out.amounts[id] = sent_bytes(plan, t, m.software);
      continue;
    }
    if (is_output(t.kind) && is_rounded(plan, t)) continue;
    out.amounts[id] = out.compute[static_cast<std::size_t>(t.kind) * works + t.work.value];
    if (t.kind == TaskKind::Merge && is_slice(plan, t))
      out.amounts[id] +=
          rounded_ps(pass_ps(m, static_cast<double>(w.rows) * w.columns * plan.problem.head_dim,
                             m.software.slice_bytes, 0));
  }
  for (const Exchange& r : plan.repacks) out.amounts[r.first.value] = repack_ps(plan, r, m);
}

// How many workers of one node messages connect, at most: libraries make a communicator of them.
std::uint32_t most_connected(const Plan& plan, const Network& network) {
  std::vector<std::uint32_t> of(plan.problem.workers);
  std::iota(of.begin(), of.end(), 0);
  const auto root = [&](std::uint32_t w) {
    while (of[w] != w) w = of[w] = of[of[w]];
    return w;
  };
  for (const Task& t : plan.tasks) {
    if (!is_send(t.kind)) continue;
    const std::uint32_t to = plan.tasks[t.peer.value].worker_index;
    if (network.distance(WorkerId{t.worker_index}, WorkerId{to}) == Distance::SameNode)
      of[root(t.worker_index)] = root(to);
  }
  std::vector<std::uint32_t> members(of.size());
  for (std::uint32_t w = 0; w < of.size(); ++w) ++members[root(w)];
  return std::ranges::max(members);
}

bool crosses_nodes(const Plan& plan, const Machine& machine) {
  const Network network(machine, plan.problem.workers);
  return network.node_of(WorkerId{0}) != network.node_of(WorkerId{plan.problem.workers - 1});
}

bool is_of_keys(const Value& v) {
  return v.type == TypeId::KeysValues || v.type == TypeId::KeysValuesSum;
}

// How many messages carry a value: keys and values, or their gradients, may travel apart.
std::uint8_t messages_of(const Value& v, const SoftwareFigures& s) {
  return s.tensors_apart && is_of_keys(v) ? 2 : 1;
}
// Of one message. Two messages share them.
std::uint32_t tensors_of_keys(const SoftwareFigures& s) {
  return s.tensors_apart ? std::max(1u, s.message_tensors / 2) : s.message_tensors;
}
std::uint32_t tensors_of(const Value& v, const SoftwareFigures& s) {
  return is_of_keys(v) ? tensors_of_keys(s) : 1;
}

// In bytes; 0 if the plan has exchanges only.
double longest_tensor(const Plan& plan, const SoftwareFigures& s) {
  double bytes = 0;
  for (const Task& t : plan.tasks) {
    if (!is_send(t.kind)) continue;
    const Value& v = plan.program[plan.value(t)];
    bytes = std::max(
        bytes, static_cast<double>(sent_bytes(plan, t, s) / messages_of(v, s)) / tensors_of(v, s));
  }
  return bytes;
}

// Of the communicator with most of them, inside a node.
std::uint32_t ranks_of(const Plan& plan, const Machine& machine) {
  if (machine.software.pair_communicators) return 2;
  return most_connected(plan, Network(machine, plan.problem.workers));
}

// With the rates of messages that NCCL's channels allow in this plan, and the SMs that they hold.
Machine with_channels(const Plan& plan, const Machine& machine) {
  Machine out = machine;
  const std::uint32_t ranks = ranks_of(plan, machine);
  out.fabric.link = link_among(machine.fabric, ranks);
  const double longest = longest_tensor(plan, machine.software);
  if (machine.comm_sms > 0 && !machine.comm_sms_set && longest > 0 && !crosses_nodes(plan, machine))
    // In a communicator of their own, a worker's send and receive are kernels of their own.
    out.comm_sms =
        channels_of(machine.fabric, ranks, longest) * (machine.software.pair_communicators ? 2 : 1);
  return out;
}

// As messages of several tensors find it. Their machine has the link of those of one already.
Network network_of_tensors(const Plan& plan, const Machine& machine) {
  Machine out = machine;
  out.fabric.link.messages.clear();
  out.fabric.link =
      link_among(out.fabric, ranks_of(plan, machine), tensors_of_keys(machine.software));
  return Network(out, plan.problem.workers);
}

// Messages that are shorter, or longer, than any whose rate the profile has.
void doubt_messages(Workload& out, const Machine& machine) {
  const std::vector<MessageRate>* rates[kDistances] = {nullptr, &machine.fabric.link.messages,
                                                       &machine.network.link.messages};
  const Plan& plan = *out.plan;
  constexpr std::uint32_t kMeasuredRanks = 8;
  const std::uint32_t ranks = ranks_of(plan, machine);
  for (std::uint32_t id = 0; id < plan.tasks.size(); ++id) {
    const Task& t = plan.tasks[id];
    if (!is_send(t.kind)) continue;
    const std::size_t at =
        static_cast<std::size_t>(TaskKind::Send) * plan.works.size() + t.work.value;
    if (!out.doubt.empty() && out.doubt[at] > 0) continue;
    const auto bytes = static_cast<double>(plan.works[t.work.value].bytes.value) /
                       messages_of(plan.program[plan.value(t)], machine.software);
    const WorkerId to{plan.tasks[t.peer.value].worker_index};
    const auto distance =
        static_cast<std::size_t>(out.network.distance(WorkerId{t.worker_index}, to));
    if (rates[distance] == nullptr || rates[distance]->empty()) continue;
    if (rates[distance] == &machine.fabric.link.messages && machine.fabric.channel_gb_per_s > 0) {
      // By channels, all sizes are alike.
      if (ranks <= kMeasuredRanks) continue;
      out.doubt.resize(kTaskKinds * plan.works.size());
      out.doubt[at] = static_cast<float>(kNoTableSpread);
      out.extrapolated.insert(fmt::format(
          "messages among {} workers of a node (NCCL's channels were measured among 2 to {})",
          ranks, kMeasuredRanks));
      continue;
    }
    const bool shorter = bytes < 0.5 * rates[distance]->front().bytes;
    if (!shorter && bytes <= 2 * rates[distance]->back().bytes) continue;
    out.doubt.resize(kTaskKinds * plan.works.size());
    out.doubt[at] = static_cast<float>(kOtherTableSpread);
    out.extrapolated.insert(shorter ? "messages shorter than any measured"
                                    : "messages longer than any measured");
  }
}

// Each attend takes as much longer as the slowest device needs.
void keep_pace(Workload& out, const Machine& m) {
  const Plan& plan = *out.plan;
  const std::size_t works = plan.works.size();
  std::vector<double> attending(m.devices());
  for (const Task& t : plan.tasks)
    if (is_attend(t.kind))
      attending[out.network.device(WorkerId{t.worker_index})] +=
          static_cast<double>(out.compute[static_cast<std::size_t>(t.kind) * works + t.work.value]);
  out.pace = pace_of_slowest(attending, spreads(m).devices);
  for (const TaskKind op : {TaskKind::Attend, TaskKind::AttendBackward})
    for (std::size_t w = 0; w < works; ++w)
      for (auto* const prices : {&out.compute, &out.tail, &out.late[0], &out.late[1]})
        if (!prices->empty()) {
          std::int64_t& ps = (*prices)[static_cast<std::size_t>(op) * works + w];
          ps = rounded_ps(static_cast<double>(ps) * out.pace);
        }
}

}  // namespace

namespace {

Workload priced(const Plan& plan, const Machine& machine, double diagonal) {
  Workload out{&plan, Network(machine, plan.problem.workers),
               {},    {},
               false, false,
               {},    1,
               false, 1,
               {},    0,
               {},    {},
               {},    {},
               {},    {},
               {},    false,
               false, {},
               false};
  const std::size_t works = plan.works.size();
  out.compute.assign(kTaskKinds * works, 0);
  for (auto& startup : out.startup) startup.assign(works, 0);
  if (machine.ideal) {
    price_blocks(out, diagonal);
    out.exchanges = price_exchanges(out, machine, out.extrapolated);
    return out;
  }

  // Which kinds occur with which work: only these have a price.
  std::vector<bool> occurs(kTaskKinds * works);
  for (const Task& t : plan.tasks)
    occurs[static_cast<std::size_t>(t.kind) * works + t.work.value] = true;

  std::int64_t stride = 1;
  for (const TokenRange& chunk : plan.layout.chunks) stride = std::max(stride, chunk.stride);
  KernelTimes kernels(machine, plan.problem, stride);
  kernels.know_parts(plan);
  if (!(machine.clock_ghz > 0 && machine.sms > 0)) {
    const SoftwareFigures& s = machine.software;
    constexpr const char* lacks = " (from their bytes, as the profile lacks clock_ghz or sms)";
    if (s.merge_per_clock > 0) out.extrapolated.insert(std::string("merges") + lacks);
    const bool copies = s.attend_bytes + s.attend_key_bytes + s.attend_backward_bytes +
                            s.attend_backward_key_bytes >
                        0;
    const bool packs = std::ranges::any_of(plan.exchanges, [&](const Exchange& e) {
      return form_of(plan, e) == ExchangeForm::AllToAll;
    });
    if ((s.attend_per_clock > 0 && copies) || (s.pack_per_clock > 0 && packs))
      out.extrapolated.insert(std::string("strided copies") + lacks);
  }
  const bool interferes = machine.comm_sms > 0 || machine.comm_slowdown > 1;
  out.waits_for_kernel = machine.comm_waits_for_kernel;
  const Synchronises waits = machine.software.host.synchronises;
  out.posts_first = waits == Synchronises::Steps || waits == Synchronises::Kernels ||
                    machine.software.posts_first;
  out.one_stream = machine.software.one_stream;
  out.free_transfers = machine.software.free_transfers;
  if (machine.software.tensors_apart)
    for (const Value& v : plan.program.values)
      out.transfers.push_back(messages_of(v, machine.software));
  const bool by_tensor =
      tensors_of_keys(machine.software) > 1 && machine.fabric.channel_gb_per_s > 0;
  if (by_tensor)
    for (const Value& v : plan.program.values) out.of_tensors.push_back(is_of_keys(v));
  out.backward_prepares = !(machine.software.prepare_bytes > 0);
  out.concurrency = machine.concurrency;
  out.turns = machine.turns;
  out.full_slowdown = machine.full_slowdown;
  out.copy_cores = machine.comm_cores;
  if (interferes)
    for (auto& slowed : out.slowed) slowed.assign(kTaskKinds * works, 1);
  const bool deals = std::ranges::any_of(machine.kernels, [&](const KernelTable& t) {
    return t.library == machine.library && t.deals_blocks != DealsBlocks::Never;
  });
  if (interferes && deals)
    for (auto& late : out.late) late.assign(kTaskKinds * works, 0);
  if (out.waits_for_kernel || !out.late[0].empty()) out.tail.assign(kTaskKinds * works, 0);
  if (peak_tflops(machine) > 0 && plan.problem.dtype != Dtype::Fp32)
    out.at_peak.assign(kTaskKinds * works, 0);
  const Pricing pricing{plan, machine, kernels};
  for (const Price& price : kPrices)
    for (std::size_t w = 0; w < works; ++w) {
      const std::size_t at = static_cast<std::size_t>(price.op) * works + w;
      if (!occurs[at]) continue;
      if (is_attend(price.op))
        if (const double doubt = kernels.doubt(plan.works[w], price.op == TaskKind::AttendBackward,
                                               &out.extrapolated);
            doubt > 0) {
          out.doubt.resize(kTaskKinds * works);
          out.doubt[at] = static_cast<float>(doubt);
        }
      if (!out.tail.empty() && is_attend(price.op) && !plan.problem.decodes())
        out.tail[at] =
            rounded_ps(kernels.tail_ps(plan.works[w], price.op == TaskKind::AttendBackward));
      out.compute[at] = rounded_ps(price.ps(pricing, plan.works[w]));
      if (!out.at_peak.empty() && is_attend(price.op))
        out.at_peak[at] =
            rounded_ps(attention_flops(plan.problem, plan.works[w].pairs, plan.works[w].columns,
                                       price.op == TaskKind::AttendBackward) /
                       peak_tflops(machine));
      for (std::uint32_t groups = 1; interferes && groups <= 2; ++groups) {
        // One communicator carries the messages of all lanes between two workers.
        const std::uint32_t transfers = machine.software.pair_communicators ? 1 : groups;
        out.slowed[groups - 1][at] = price.slowed(pricing, plan.works[w], transfers);
        if (deals && is_attend(price.op) && !plan.problem.decodes())
          out.late[groups - 1][at] = rounded_ps(
              kernels.late_ps(plan.works[w], price.op == TaskKind::AttendBackward, transfers));
      }
    }
  if (!plan.problem.decodes()) keep_pace(out, machine);  // memories are alike
  doubt_messages(out, machine);
  const bool halves = !out.transfers.empty();
  if (halves || by_tensor)
    for (auto& startup : out.startup) startup.resize(2 * works);
  std::vector<std::int64_t> sent;  // rounded messages are shorter than their works say
  for (const Work& w : plan.works)
    sent.push_back(machine.software.sends_rounded ? 0 : w.bytes.value);
  for (const Task& t : plan.tasks)
    if (machine.software.sends_rounded && is_send(t.kind))
      sent[t.work.value] = std::max(sent[t.work.value], sent_bytes(plan, t, machine.software));
  const Network tensors = by_tensor ? network_of_tensors(plan, machine) : out.network;
  for (std::size_t d = 0; d < kDistances; ++d) {
    const auto distance = static_cast<Distance>(d);
    out.latency[d] = rounded_ps(out.network.startup_ps(distance, 0));
    for (std::size_t w = 0; w < works; ++w) {
      if (!occurs[static_cast<std::size_t>(TaskKind::Send) * works + w]) continue;
      const auto bytes = static_cast<double>(sent[w]);
      out.startup[d][w] = rounded_ps(out.network.startup_ps(distance, bytes));
      if (halves || by_tensor)
        out.startup[d][works + w] =
            rounded_ps(tensors.startup_ps(distance, halves ? bytes / 2 : bytes));
    }
  }
  if (!go_by_work(plan, machine.software)) price_tasks(out, machine);
  out.exchanges = price_exchanges(out, machine, out.extrapolated);
  if (!machine.software.host.issues_in_no_time()) {
    Issue host = issue_times(plan, machine.software);
    out.issued = std::move(host.issued);
    out.waits_before = std::move(host.waits_before);
    out.host_busy = std::move(host.busy);
    out.awaits_kernels = machine.software.host.synchronises == Synchronises::Kernels;
  }
  return out;
}

}  // namespace

Workload price(const Plan& plan, const Machine& machine, double diagonal) {
  if (machine.ideal || !(machine.fabric.channel_gb_per_s > 0))
    return priced(plan, machine, diagonal);
  return priced(plan, with_channels(plan, machine), diagonal);
}

}  // namespace ringsched
