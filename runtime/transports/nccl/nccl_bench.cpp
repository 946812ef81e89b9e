// Messages and collectives of NCCL by size, counted as nccl-tests does: the size of a collective is
// that of the larger of its two sides, and the bus rate is what the busiest link carries.
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "transports/nccl/communicator.hpp"

namespace ringsched {

namespace {

using nccl::Communicator;

class DeviceBytes {
 public:
  explicit DeviceBytes(std::size_t bytes) {
    nccl::require(cudaMalloc(&data_, std::max<std::size_t>(bytes, 1)), "memory for messages");
  }
  ~DeviceBytes() { cudaFree(data_); }
  DeviceBytes(const DeviceBytes&) = delete;
  std::byte* get() const { return data_; }

 private:
  std::byte* data_ = nullptr;
};

struct Bench {
  Communicator& comm;
  int rank, size;
  std::byte *from, *to;
  cudaStream_t stream;
};

struct Kind {
  const char* name;
  double (*bus_factor)(double ranks);
  // `bytes` is the printed size, a multiple of the number of processes.
  ncclResult_t (*run)(const Bench&, std::size_t bytes);
  // The process from which byte i of the result comes, and its place there.
  std::pair<int, std::size_t> (*source)(const Bench&, std::size_t bytes, std::size_t i);
};

double share(double n) { return (n - 1) / n; }

constexpr Kind kKinds[] = {
    {"sendrecv", [](double) { return 1.0; },
     [](const Bench& b, std::size_t bytes) {
       b.comm.group([&] {
         b.comm.send(b.from, bytes, (b.rank + 1) % b.size, b.stream);
         b.comm.receive(b.to, bytes, (b.rank + b.size - 1) % b.size, b.stream);
       });
       return ncclSuccess;
     },
     [](const Bench& b, std::size_t, std::size_t i) {
       return std::pair{(b.rank + b.size - 1) % b.size, i};
     }},
    {"all_gather", share,
     [](const Bench& b, std::size_t bytes) {
       return ncclAllGather(b.from, b.to, bytes / static_cast<std::size_t>(b.size), ncclInt8,
                            b.comm.get(), b.stream);
     },
     [](const Bench& b, std::size_t bytes, std::size_t i) {
       const std::size_t part = bytes / static_cast<std::size_t>(b.size);
       return std::pair{static_cast<int>(i / part), i % part};
     }},
    {"alltoall", share,
     [](const Bench& b, std::size_t bytes) {
       const std::size_t part = bytes / static_cast<std::size_t>(b.size);
       b.comm.group([&] {
         for (int r = 0; r < b.size; ++r) {
           b.comm.send(b.from + part * static_cast<std::size_t>(r), part, r, b.stream);
           b.comm.receive(b.to + part * static_cast<std::size_t>(r), part, r, b.stream);
         }
       });
       return ncclSuccess;
     },
     [](const Bench& b, std::size_t bytes, std::size_t i) {
       const std::size_t part = bytes / static_cast<std::size_t>(b.size);
       return std::pair{static_cast<int>(i / part),
                        i % part + part * static_cast<std::size_t>(b.rank)};
     }},
    {"reduce_scatter", share,
     [](const Bench& b, std::size_t bytes) {
       return ncclReduceScatter(b.from, b.to, bytes / static_cast<std::size_t>(b.size), ncclUint8,
                                ncclSum, b.comm.get(), b.stream);
     },
     nullptr},
};

std::byte pattern(int rank, std::size_t i) {
  return static_cast<std::byte>(i * 2654435761u + 7 * static_cast<std::size_t>(rank) + 1);
}

// Wrong bytes of the result.
std::int64_t wrong(const Kind& kind, const Bench& b, std::size_t bytes) {
  const std::size_t part = bytes / static_cast<std::size_t>(b.size);
  std::vector<std::byte> got(kind.source ? bytes : part);
  nccl::require(cudaMemcpy(got.data(), b.to, got.size(), cudaMemcpyDeviceToHost),
                "reading messages");
  std::int64_t n = 0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    std::byte should{};
    if (kind.source) {
      const auto [rank, at] = kind.source(b, bytes, i);
      should = pattern(rank, at);
    } else {
      unsigned sum = 0;
      for (int r = 0; r < b.size; ++r)
        sum += static_cast<unsigned>(pattern(r, i + part * static_cast<std::size_t>(b.rank)));
      should = static_cast<std::byte>(sum);
    }
    n += got[i] != should ? 1 : 0;
  }
  return n;
}

LinkPoint measure(const Kind& kind, const Bench& b, World& world, std::size_t bytes,
                  const LinkBenchOptions& options) {
  const auto rounds = [&](int n) {
    for (int i = 0; i < n; ++i) b.comm.require_success(kind.run(b, bytes), kind.name);
    b.comm.wait_for(b.stream);
  };
  rounds(std::max(1, options.warm_up));
  return settled_point(world, static_cast<std::int64_t>(bytes), options.rounds, [&] {
    nccl::require(cudaMemsetAsync(b.to, 0, bytes, b.stream), "clearing memory");
    rounds(1);
    world.gather("warm");
    const Clock::time_point start = Clock::now();
    rounds(options.rounds);
    const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
    return LinkSample{seconds, wrong(kind, b, bytes)};
  });
}

void bench(World& world, Control& control, const NcclOptions& options,
           const LinkBenchOptions& asked, const std::function<void(std::int64_t)>& begins,
           NcclTables& tables) {
  tables.gpu = nccl::take_gpu(options);
  const auto n = static_cast<std::size_t>(world.size());
  const std::size_t most = (static_cast<std::size_t>(asked.most) / n + 1) * n;
  const DeviceBytes from(most), to(most);
  std::vector<std::byte> host(most);
  const int rank = static_cast<int>(world.rank());
  for (std::size_t i = 0; i < most; ++i) host[i] = pattern(rank, i);
  nccl::require(cudaMemcpy(from.get(), host.data(), most, cudaMemcpyHostToDevice),
                "writing messages");
  nccl::require(cudaStreamSynchronize(nullptr), "writing messages");
  cudaStream_t stream = nullptr;
  nccl::require(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "a stream");
  // Declared after the memory, so that it finishes before the memory is released.
  Communicator comm(world, control, options, Communicator::Calls::Wait);
  const Bench b{comm, rank, static_cast<int>(n), from.get(), to.get(), stream};
  for (const Kind& kind : kKinds) {
    NcclTable& table = tables.by_kind.emplace_back();
    table.name = kind.name;
    table.bus_factor = kind.bus_factor(static_cast<double>(n));
    std::size_t before = 0;
    for (const std::int64_t bytes : sizes_of(asked)) {
      const std::size_t whole = static_cast<std::size_t>(bytes) / n * n;
      if (whole == before || whole == 0) continue;
      before = whole;
      begins(bytes);
      table.points.push_back(measure(kind, b, world, whole, asked));
    }
  }
  comm.leave();
  cudaStreamDestroy(stream);
}

}  // namespace

}  // namespace ringsched

extern "C" void ringsched_bench_nccl(ringsched::World& world, ringsched::Control& control,
                                     const ringsched::NcclOptions& options,
                                     const ringsched::LinkBenchOptions& asked,
                                     const std::function<void(std::int64_t)>& begins,
                                     ringsched::NcclTables& tables) {
  ringsched::bench(world, control, options, asked, begins, tables);
}
