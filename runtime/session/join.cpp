#include "ringsched/runtime/join.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <initializer_list>

#include "ringsched/scheduler/error.hpp"
#include "ringsched/scheduler/nearest.hpp"
#include "ringsched/scheduler/problem.hpp"

namespace ringsched {

namespace {

void* mpi_module() { return ::dlopen("libringsched_mpi.so", RTLD_NOW | RTLD_GLOBAL); }

void* required_mpi_module() {
  void* module = mpi_module();
  if (!module)
    fail(
        "the mpi transport is not available: {}; install libopenmpi-dev and openmpi-bin, then "
        "build again",
        ::dlerror());
  return module;
}

std::unique_ptr<World> mpi_world() {
  void* module = required_mpi_module();
  const auto make = reinterpret_cast<MakeWorld>(::dlsym(module, "ringsched_make_mpi_world"));
  if (!make) fail("the mpi transport is not available: {}", ::dlerror());
  return std::unique_ptr<World>(make());
}

bool by_flags(const Launch& l) { return l.launcher == "flags"; }

// The start of messages that continue with the number of processes.
std::string says(const Launch& l) {
  return by_flags(l) ? "--ranks asks for" : l.launcher + " started";
}

// Whether the launcher set what MPI needs to find the other processes. Without it, Open MPI ends a
// process of srun at once, so we check first.
bool mpi_can_connect() {
  const auto any = [](std::initializer_list<const char*> names) {
    return std::any_of(names.begin(), names.end(), [](auto* name) { return std::getenv(name); });
  };
  if (any({"OMPI_COMM_WORLD_SIZE", "PMIX_RANK"})) return true;
  if (!any({"PMI_RANK", "PMI_FD"})) return false;
  void* module = mpi_module();
  const auto speaks =
      module ? reinterpret_cast<MpiSpeaksPmi>(::dlsym(module, "ringsched_mpi_speaks_pmi"))
             : nullptr;
  return speaks && speaks();
}

std::unique_ptr<World> mpi_world(const Launch& launch) {
  const auto alone = [&] {
    fail(
        "{} {} processes, but MPI finds only this one; use mpirun -n {}, srun --mpi=pmix or "
        "--transport tcp{}",
        says(launch), launch.size, launch.size,
        by_flags(launch) ? "" : fmt::format(" (for a single process, unset {})", launch.found));
  };
  if (launch.size > 1 && !mpi_can_connect()) alone();
  std::unique_ptr<World> world = mpi_world();
  if (world->size() == 1 && launch.size > 1) alone();
  return world;
}

std::unique_ptr<World> tcp_world(const Launch& launch, std::chrono::nanoseconds patience,
                                 Control& control) {
  if (launch.master.empty())
    fail(
        "{} {} processes, but the address of rank 0 is not set; give --master HOST:PORT, or set "
        "MASTER_ADDR and MASTER_PORT",
        says(launch), launch.size);
  const char* secret = std::getenv("RINGSCHED_SECRET");
  const std::string self = fmt::format("process {}: ", launch.rank);
  try {
    return make_tcp_world(launch, {secret ? secret : "", patience}, control);
  } catch (const Error& wrong) {
    throw Error(self + wrong.what());
  } catch (const RunFailed& failed) {
    throw RunFailed(self + failed.what());
  }
}

}  // namespace

void* nccl_function(const char* name) {
  void* module = ::dlopen("libringsched_nccl.so", RTLD_NOW);
  if (!module)
    fail("the nccl transport is not available: {}; install CUDA and NCCL, then build again",
         ::dlerror());
  void* function = ::dlsym(module, name);
  if (!function) fail("the nccl transport is not available: {}", ::dlerror());
  return function;
}

std::string nccl_version() {
  std::string text;
  reinterpret_cast<NcclVersion>(nccl_function("ringsched_nccl_version"))(text);
  return text;
}

NcclOptions nccl_options(const JoinOptions& flags, std::uint32_t place,
                         std::chrono::nanoseconds patience) {
  NcclOptions o;
  o.place = place;
  o.ctas = static_cast<int>(parse_count(flags.ctas, "--nccl-ctas"));
  o.patience = patience;
  return o;
}

std::unique_ptr<Transport> transport_of(const JoinOptions& flags, std::uint32_t place, World& world,
                                        const Plan& plan, Control& control,
                                        std::chrono::nanoseconds patience) {
  if (!flags.exchanges.empty() && world.name() != "mpi")
    fail("--mpi-exchanges needs --transport mpi, but this run uses {}", world.name());
  if (flags.exchanges == "messages") world.use_messages_only();
  if (flags.transport != "nccl") return world.transport(plan, control);
  const auto make =
      reinterpret_cast<MakeNcclTransport>(nccl_function("ringsched_make_nccl_transport"));
  return std::unique_ptr<Transport>(
      make(plan, control, world, nccl_options(flags, place, patience)));
}

void JoinOptions::require_valid(bool on_gpus) const {
  const std::int64_t blocks = parse_count(ctas, "--nccl-ctas");
  if (blocks < 0 || blocks > 64) fail("--nccl-ctas is {}; use 0 to 64", ctas);
  if (blocks > 0 && transport != "nccl" && !on_gpus) fail("--nccl-ctas needs --transport nccl");
  if (!exchanges.empty()) {
    check_choice("--mpi-exchanges", exchanges, {"collectives", "messages"});
    if (on_gpus || (!transport.empty() && transport != "mpi"))
      fail("--mpi-exchanges needs --transport mpi{}", on_gpus ? "" : ", not " + transport);
  }
  if (transport.empty()) return;
  if (has_nccl) return check_choice("--transport", transport, {"local", "tcp", "mpi", "nccl"});
  check_choice("--transport", transport, {"local", "tcp", "mpi"});
}

void JoinOptions::refuse_alone(const Launch& l) const {
  if (!l.launcher.empty()) return;
  if (transport == "mpi") {
    required_mpi_module();
    fail(
        "--transport mpi needs several processes, and this is the only one; start it with mpirun "
        "-n N");
  }
  if (transport == "tcp")
    fail(
        "--transport tcp needs several processes, and this is the only one; use torchrun, or "
        "--rank, --ranks and --master");
  if (!launch.master.empty())
    fail(
        "--master needs several processes, and this is the only one; add --rank and --ranks, or "
        "use torchrun or srun");
}

std::unique_ptr<World> world_of(const JoinOptions& flags, const Launch& launch,
                                std::chrono::nanoseconds patience, Control& control) {
  const std::string& name = flags.transport;
  if (name == "local") {
    if (launch.size > 1)
      fail("{} {} processes, but --transport local runs in one process; use --transport {}",
           says(launch), launch.size, mpi_can_connect() ? "mpi" : "tcp");
    return make_local_world();
  }
  flags.refuse_alone(launch);
  if (launch.size == 1) return make_local_world();
  if (name == "mpi") return mpi_world(launch);
  if (name == "tcp") return tcp_world(launch, patience, control);
  const bool launched_by_mpi = launch.launcher == "mpirun" || launch.launcher == "srun";
  return launched_by_mpi && mpi_can_connect() ? mpi_world(launch)
                                              : tcp_world(launch, patience, control);
}

std::string set_by(const Launch& l) {
  if (l.launcher.empty()) return "no launcher";
  return by_flags(l) ? l.found : fmt::format("{}'s {}", l.launcher, l.found);
}

}  // namespace ringsched
