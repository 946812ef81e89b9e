// The keys of a machine profile. The reader and the writer both walk these lists, so each key that
// can be read is also written. `Keys` is a Section (toml_section.hpp) or a Writer (write.cpp); the
// machine is const for the latter.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "ringsched/machine/machine.hpp"

namespace ringsched {

inline const std::map<std::string, Fabric> kFabrics = {{"switch", Fabric::Switch},
                                                       {"mesh", Fabric::Mesh},
                                                       {"pcie", Fabric::Pcie},
                                                       {"memory", Fabric::Memory}};
inline const std::map<std::string, Dtype> kDtypes = {
    {"fp32", Dtype::Fp32}, {"bf16", Dtype::Bf16}, {"fp16", Dtype::Fp16}};
inline const std::map<std::string, bool> kPasses = {{"forward", false}, {"backward", true}};
inline const std::map<std::string, TileShape> kShapes = {{"full", TileShape::Full},
                                                         {"causal", TileShape::Causal}};
inline const std::map<std::string, ExchangeForm> kCollectives = {
    {"all-gather", ExchangeForm::AllGather},
    {"all-to-all", ExchangeForm::AllToAll},
    {"reduce-scatter", ExchangeForm::ReduceScatter},
    {"all-reduce", ExchangeForm::AllReduce}};
inline const std::map<std::string, DealsBlocks> kDealsBlocks = {{"never", DealsBlocks::Never},
                                                                {"unpacked", DealsBlocks::Unpacked},
                                                                {"always", DealsBlocks::Always}};
inline const std::map<std::string, Synchronises> kSynchronises = {
    {"never", Synchronises::Never},
    {"exchanges", Synchronises::Exchanges},
    {"steps", Synchronises::Steps},
    {"kernels", Synchronises::Kernels}};
inline const std::map<std::string, bool> kModels = {{"ideal", true}};

constexpr double kMostGb = 1e6, kMostUs = 1e9, kMostSpread = 2;

template <class Keys, class Link>
void link_keys(Keys& s, Link& link) {
  s.number("gb_per_s", link.gb_per_s, 1e-6, kMostGb);
  s.number("latency_us", link.latency_us, 0, kMostUs);
  s.rates("messages", link.messages, true);
}

template <class Keys, class Software>
void software_keys(Keys& s, Software& w) {
  s.number("merge_bytes", w.merge_bytes, 0, 1e6);
  s.number("reduce_bytes", w.reduce_bytes, 0, 1e6);
  s.number("prepare_bytes", w.prepare_bytes, 0, 1e6);
  s.number("output_bytes", w.output_bytes, 0, 1e6);
  s.number("slice_bytes", w.slice_bytes, 0, 1e6);
  s.count("merge_launches", w.merge_launches, 0, 1000);
  s.number("merge_per_clock", w.merge_per_clock, 0, 1e6);
  s.number("attend_bytes", w.attend_bytes, 0, 1e6);
  s.number("attend_key_bytes", w.attend_key_bytes, 0, 1e6);
  s.number("attend_backward_bytes", w.attend_backward_bytes, 0, 1e6);
  s.number("attend_backward_key_bytes", w.attend_backward_key_bytes, 0, 1e6);
  s.count("attend_launches", w.attend_launches, 0, 1000);
  s.number("attend_per_clock", w.attend_per_clock, 0, 1e6);
  s.number("attend_factor", w.attend_factor, 0.01, 100);
  s.flag("packed", w.packed);
  s.count("backward_fills", w.backward_fills, 0, 1000);
  s.flag("packs_all", w.packs_all);
  s.number("pack_per_clock", w.pack_per_clock, 0, 1e6);
  s.flag("posts_first", w.posts_first);
  s.flag("one_stream", w.one_stream);
  s.flag("pair_communicators", w.pair_communicators);
  s.count("message_tensors", w.message_tensors, 1, 16);
  s.flag("tensors_apart", w.tensors_apart);
  s.flag("sends_rounded", w.sends_rounded);
  s.flag("free_transfers", w.free_transfers);
  s.flag("sends_all", w.sends_all);
  s.text("kernels", w.kernels);
  s.text("schedules", w.schedules);
  s.number("spread", w.spread, 1e-6, kMostSpread);
  s.text("source", w.source);
}

template <class Keys, class Host>
void host_keys(Keys& s, Host& h) {
  s.number("call_us", h.call_us, 0, kMostUs);
  s.number("call_backward_us", h.call_backward_us, 0, kMostUs);
  s.number("attend_us", h.attend_us, 0, kMostUs);
  s.number("attend_backward_us", h.attend_backward_us, 0, kMostUs);
  s.number("merge_us", h.merge_us, 0, kMostUs);
  s.number("slice_us", h.slice_us, 0, kMostUs);
  s.number("pass_us", h.pass_us, 0, kMostUs);
  s.number("post_us", h.post_us, 0, kMostUs);
  s.number("exchange_us", h.exchange_us, 0, kMostUs);
  s.number("step_us", h.step_us, 0, kMostUs);
  s.choice("synchronises", h.synchronises, kSynchronises);
  s.number("synchronise_us", h.synchronise_us, 0, kMostUs);
  s.number("graph_us", h.graph_us, 0, kMostUs);
  s.number("graph_node_us", h.graph_node_us, 0, kMostUs);
  s.number("spread", h.spread, 1e-6, kMostSpread);
  s.text("source", h.source);
}

template <class Keys, class Kernel>
void kernel_keys(Keys& s, Kernel& k) {
  s.text("library", k.library);
  s.choice("pass", k.backward, kPasses);
  s.choice("mask", k.shape, kShapes);
  s.choices("dtypes", k.dtypes, kDtypes);
  s.count("head_dim", k.head_dim, 1, kMaxHeadDim);
  s.numbers("pads_head_dim_to", k.pads_head_dim_to, 1, kMaxHeadDim);
  s.numbers("tokens", k.tokens, 1, 1e9);
  s.numbers("tflops", k.tflops, 1e-9, 1e6);
  s.one_or_more("heads", k.heads, 1, 1e6);
  s.count("heads_per_key_head", k.heads_per_key_head, 1, 1 << 20);
  s.count("block_rows", k.blocks.rows, 1, 1 << 20);
  s.count("block_keys", k.blocks.keys, 1, 1 << 20);
  s.number("block_overhead_keys", k.blocks.overhead_keys, 1e-6, 1e6);
  s.count("blocks_per_sm", k.blocks.per_sm, 1, 2);
  s.number("sustained_tflops", k.sustained_tflops, 1e-6, 1e6);
  s.number("shared_rate", k.blocks.shared_rate, 0.5, 1);
  s.flag("longest_first", k.blocks.longest_first);
  s.flag("splits_keys", k.blocks.splits_keys);
  s.choice("deals_blocks", k.deals_blocks, kDealsBlocks);
  s.flag("overlaps_exp", k.overlaps_exp);
  s.flag("adds_groups", k.adds_groups);
  s.flag("packs_groups", k.packs_groups);
  s.number("packed_factor", k.packed_factor, 0.01, 100);
  s.number("documents_spread", k.documents_spread, 1e-6, kMostSpread);
  s.number("spread", k.spread, 1e-6, kMostSpread);
  s.text("source", k.source);
}

template <class Keys, class Collective>
void collective_keys(Keys& s, Collective& c) {
  s.choice("kind", c.kind, kCollectives);
  s.count("per_node", c.per_node, 1, kMaxWorkers);
  s.count("nodes", c.nodes, 1, kMaxWorkers);
  s.count("groups", c.groups, 1, kMaxWorkers);
  s.rates("busbw", c.busbw);
  s.number("spread", c.spread, 1e-6, kMostSpread);
  s.text("source", c.source);
}

template <class Keys, class M>
void devices_keys(Keys& d, M& m) {
  d.count("nodes", m.nodes, 1, kMaxWorkers);
  d.count("per_node", m.devices_per_node, 1, kMaxWorkers);
  d.count("workers_each", m.workers_per_device, 1, kMaxWorkers);
  d.count("concurrency", m.concurrency, 1, 1 << 20);
  d.flag("turns", m.turns);
  d.number("slowdown", m.full_slowdown, 1, 1000);
  d.count("sms", m.sms, 0, 1 << 20);
  d.count("block_rows", m.block_rows, 1, 1 << 20);
  d.number("clock_ghz", m.clock_ghz, 1e-3, 1e3);
  d.number("flops_per_clock", m.flops_per_clock, 1e-6, 1e9);
  d.number("exps_per_clock", m.exps_per_clock, 1e-6, 1e9);
  d.number("spread", m.devices_spread, 1e-6, kMostSpread);
  d.text("source", m.devices_source);
}

// All except [[kernel]] and [[collective]], which may occur several times.
template <class Keys, class M>
void machine_keys(Keys& s, M& m) {
  s.text("name", m.name);
  s.text("summary", m.summary);
  s.text("made_by", m.made_by);
  s.text("library", m.library);
  s.choice("model", m.ideal, kModels);
  s.section("devices", [&](Keys& d) { devices_keys(d, m); });
  s.section("memory", [&](Keys& d) {
    d.number("gb", m.memory_gb, 1e-6, kMostGb);
    d.number("gb_per_s", m.memory_gb_per_s, 1e-6, kMostGb);
    d.number("change", m.memory_change, 1e-6, 1e6);
    d.text("source", m.memory_source);
  });
  s.section("launch", [&](Keys& d) {
    d.number("us", m.launch_us, 0, kMostUs);
    d.text("source", m.launch_source);
  });
  s.section("communication", [&](Keys& d) {
    d.count("sms", m.comm_sms, 0, 1 << 20);
    d.count("cores", m.comm_cores, 0, 1 << 10);
    d.number("slowdown", m.comm_slowdown, 1, 1000);
    d.flag("waits_for_kernel", m.comm_waits_for_kernel);
    d.text("source", m.comm_source);
  });
  s.section("noise", [&](Keys& d) {
    d.number("share", m.noise, 0, kMostNoise);
    d.text("source", m.noise_source);
  });
  s.section("fabric", [&](Keys& d) {
    d.choice("kind", m.fabric.kind, kFabrics);
    link_keys(d, m.fabric.link);
    d.number("channel_gb_per_s", m.fabric.channel_gb_per_s, 0, kMostGb);
    d.count("channels", m.fabric.channels, 1, 64);
    d.number("core_gb_per_s", m.fabric.core_gb_per_s, 0, kMostGb);
    d.count("per_switch", m.fabric.per_switch, 1, kMaxWorkers);
    d.number("uplink_gb_per_s", m.fabric.uplink_gb_per_s, 1e-6, kMostGb);
    d.number("host_gb_per_s", m.fabric.host_gb_per_s, 0, kMostGb);
    d.number("spread", m.fabric.spread, 1e-6, kMostSpread);
    d.text("source", m.fabric.source);
  });
  s.section("network", [&](Keys& d) {
    d.count("nics", m.network.nics, 1, kMaxWorkers);
    link_keys(d, m.network.link);
    d.number("oversubscription", m.network.oversubscription, 1, 1e6);
    d.number("spread", m.network.spread, 1e-6, kMostSpread);
    d.text("source", m.network.source);
  });
  s.section("software", [&](Keys& d) { software_keys(d, m.software); });
  s.section("host", [&](Keys& d) { host_keys(d, m.software.host); });
}

}  // namespace ringsched
