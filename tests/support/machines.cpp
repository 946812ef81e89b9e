#include "support/machines.hpp"

#include <algorithm>

namespace ringsched {

Machine test_machine(Fabric fabric, std::uint32_t devices) {
  Machine m;
  m.name = "test";
  m.summary = "round figures";
  m.devices_per_node = devices;
  m.memory_gb_per_s = 1000;
  m.launch_us = 1;
  m.fabric.kind = fabric;
  m.fabric.link.gb_per_s = 0.1;
  m.fabric.link.latency_us = 2;
  m.fabric.per_switch = 2;
  m.fabric.uplink_gb_per_s = 0.07;
  for (const bool backward : {false, true})
    for (const TileShape shape : {TileShape::Full, TileShape::Causal}) {
      KernelTable k;
      k.backward = backward;
      k.shape = shape;
      k.dtypes = {Dtype::Bf16};
      k.tokens = {1};
      k.tflops = {shape == TileShape::Full ? 0.01 : 0.007};
      m.kernels.push_back(k);
    }
  require_valid(m);
  return m;
}

std::vector<NamedMachine> test_machines(std::uint32_t workers) {
  std::vector<NamedMachine> all;
  const auto add = [&](const char* name, Fabric fabric, auto change) {
    Machine m = test_machine(fabric, workers);
    change(m);
    require_valid(m);
    all.push_back({name, m});
  };
  add("mesh", Fabric::Mesh, [](Machine&) {});
  add("switch", Fabric::Switch, [](Machine&) {});
  add("narrow_core", Fabric::Switch, [](Machine& m) { m.fabric.core_gb_per_s = 0.13; });
  add("pcie", Fabric::Pcie, [](Machine& m) { m.fabric.host_gb_per_s = 0.09; });
  add("memory", Fabric::Memory, [](Machine&) {});
  add("nodes", Fabric::Switch, [&](Machine& m) {
    m.devices_per_node = 3;
    m.nodes = (workers + 2) / 3;
    m.network.nics = 2;
    m.network.link = {0.05, 7, {}};
    m.network.oversubscription = 1.5;
  });
  add("taken_sms", Fabric::Switch, [](Machine& m) {
    m.sms = 10;
    m.block_rows = 4;
    m.comm_sms = 3;
    m.comm_slowdown = 1.25;
  });
  add("queued_behind_kernels", Fabric::Switch, [](Machine& m) {
    m.comm_slowdown = 1.5;
    m.comm_waits_for_kernel = true;
  });
  const auto deal_blocks = [](Machine& m) {
    m.sms = 10;
    m.comm_sms = 3;
    for (KernelTable& t : m.kernels) {
      t.blocks = {.rows = 4, .keys = 4, .overhead_keys = 2};
      t.deals_blocks = DealsBlocks::Always;
    }
  };
  add("taken_sms_of_dealt_blocks", Fabric::Switch, deal_blocks);
  add("posted_first_before_dealt_blocks", Fabric::Switch, [&](Machine& m) {
    deal_blocks(m);
    m.comm_waits_for_kernel = true;
    m.software.posts_first = true;
  });
  add("free_tensors_apart_behind_dealt_blocks", Fabric::Switch, [&](Machine& m) {
    deal_blocks(m);
    m.comm_waits_for_kernel = true;
    m.software.posts_first = true;
    m.software.tensors_apart = true;
    m.software.free_transfers = true;
    m.fabric.link.gb_per_s *= 4;
  });
  add("queued_behind_kernels_but_posted_first", Fabric::Switch, [](Machine& m) {
    m.comm_waits_for_kernel = true;
    m.software.posts_first = true;
  });
  add("queued_behind_all_but_backward_kernels", Fabric::Switch, [](Machine& m) {
    m.comm_waits_for_kernel = true;
    m.software.prepare_bytes = 0;
  });
  add("one_stream", Fabric::Mesh, [](Machine& m) { m.software.one_stream = true; });
  add("one_stream_behind_kernels", Fabric::Switch, [](Machine& m) {
    m.comm_waits_for_kernel = true;
    m.software.posts_first = true;
    m.software.one_stream = true;
  });
  add("free_transfers_behind_kernels", Fabric::Switch, [](Machine& m) {
    m.comm_waits_for_kernel = true;
    m.software.free_transfers = true;
  });
  add("tensors_apart", Fabric::Mesh, [](Machine& m) { m.software.tensors_apart = true; });
  add("free_tensors_apart_on_one_stream_behind_kernels", Fabric::Switch, [](Machine& m) {
    m.comm_waits_for_kernel = true;
    m.comm_slowdown = 1.25;
    m.software.prepare_bytes = 0;
    m.software.one_stream = true;
    m.software.tensors_apart = true;
    m.software.free_transfers = true;
  });
  add("shared_devices", Fabric::Switch, [&](Machine& m) {
    m.devices_per_node = std::max(1u, (workers + 2) / 3);
    m.workers_per_device = 3;
    m.concurrency = 2;
  });
  add("copies_take_cores", Fabric::Memory, [&](Machine& m) {
    m.devices_per_node = std::max(1u, (workers + 2) / 3);
    m.workers_per_device = 3;
    m.concurrency = 2;
    m.comm_cores = 1;
  });
  add("full_devices", Fabric::Switch, [&](Machine& m) {
    m.devices_per_node = std::max(1u, (workers + 2) / 3);
    m.workers_per_device = 3;
    m.concurrency = 3;
    m.full_slowdown = 1.3;
  });
  const HostFigures host = {5, 8, 4, 6, 3, 0.5, 1, 2, 2.5, 1.5, Synchronises::Never,
                            0, 0, 0, 0, {}};
  add("slow_host", Fabric::Mesh, [&](Machine& m) { m.software.host = host; });
  add("slow_host_beside_taken_sms", Fabric::Switch, [&](Machine& m) {
    m.sms = 10;
    m.block_rows = 4;
    m.comm_sms = 3;
    m.comm_waits_for_kernel = true;
    m.software.host = host;
  });
  add("slow_host_that_synchronises_exchanges", Fabric::Mesh, [&](Machine& m) {
    m.software.host = host;
    m.software.host.synchronises = Synchronises::Exchanges;
    m.software.host.synchronise_us = 3.5;
  });
  add("slow_host_that_synchronises_steps", Fabric::Switch, [&](Machine& m) {
    m.software.host = host;
    m.software.host.synchronises = Synchronises::Steps;
    m.software.host.synchronise_us = 3.5;
  });
  add("slow_host_that_synchronises_kernels", Fabric::Switch, [&](Machine& m) {
    m.software.host = host;
    m.software.host.synchronises = Synchronises::Kernels;
    m.software.host.synchronise_us = 3.5;
  });
  add("slow_host_of_graphs", Fabric::Mesh, [&](Machine& m) {
    m.software.host.graph_us = 12;
    m.software.host.graph_node_us = 0.3;
  });
  add("turns", Fabric::Memory, [&](Machine& m) {
    m.workers_per_device = workers;
    m.devices_per_node = 1;
    m.concurrency = 2;
    m.turns = true;
    m.comm_cores = 1;
    m.full_slowdown = 1.1;
  });
  return all;
}

}  // namespace ringsched
