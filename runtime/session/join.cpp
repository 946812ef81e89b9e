#include "ringsched/runtime/join.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <initializer_list>

#include "ringsched/scheduler/error.hpp"
#include "ringsched/scheduler/problem.hpp"

namespace ringsched {

namespace {

void* mpi_module() { return ::dlopen("libringsched_mpi.so", RTLD_NOW | RTLD_GLOBAL); }

std::unique_ptr<World> mpi_world() {
  void* module = mpi_module();
  if (!module)
    fail(
        "the mpi transport is not there: {}; install libopenmpi-dev and openmpi-bin and build "
        "again",
        ::dlerror());
  const auto make = reinterpret_cast<MakeWorld>(::dlsym(module, "ringsched_make_mpi_world"));
  if (!make) fail("the mpi transport is not there: {}", ::dlerror());
  return std::unique_ptr<World>(make());
}

bool by_flags(const Launch& l) { return l.launcher == "flags"; }

// Who has it that there are so many processes, for sentences that go on with their number.
std::string says(const Launch& l) {
  return by_flags(l) ? "--rank and --ranks say" : l.launcher + " has started";
}

// Whether whoever has started this process left something by which MPI finds the others. Open MPI
// ends a process of srun at once if there is nothing, so this is asked before.
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
        "{} {} processes, but MPI knows of one; start them with mpirun -n {}, or with "
        "srun --mpi=pmix, or use --transport tcp{}",
        says(launch), launch.size, launch.size,
        by_flags(launch) ? "" : fmt::format(" (if there are no others, unset {})", launch.found));
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
        "{} {} processes and {} not say where they meet; give --master HOST:PORT of process 0, or "
        "set MASTER_ADDR and MASTER_PORT",
        says(launch), launch.size, by_flags(launch) ? "do" : "does");
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
    fail("the nccl transport is not there: {}; install CUDA and NCCL and build again", ::dlerror());
  void* function = ::dlsym(module, name);
  if (!function) fail("the nccl transport is not there: {}", ::dlerror());
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
  if (flags.transport != "nccl") return world.transport(plan, control);
  const auto make =
      reinterpret_cast<MakeNcclTransport>(nccl_function("ringsched_make_nccl_transport"));
  return std::unique_ptr<Transport>(
      make(plan, control, world, nccl_options(flags, place, patience)));
}

void JoinOptions::check(bool on_gpus) const {
  const std::int64_t blocks = parse_count(ctas, "--nccl-ctas");
  if (blocks < 0 || blocks > 64) fail("--nccl-ctas is {}, allowed are 0 to 64", ctas);
  if (blocks > 0 && transport != "nccl" && !on_gpus) fail("--nccl-ctas goes with --transport nccl");
  for (const char* known : {"", "local", "tcp", "mpi"})
    if (transport == known) return;
  if (has_nccl && transport == "nccl") return;
  fail("--transport is '{}', allowed are local, tcp{} mpi{}", transport, has_nccl ? "," : " and",
       has_nccl ? " and nccl" : "");
}

void JoinOptions::refuse_alone(const Launch& l) const {
  if (!l.launcher.empty()) return;
  if (transport == "mpi")
    fail(
        "--transport mpi is for several processes, and this one is alone; start them with "
        "mpirun -n N");
  if (transport == "tcp")
    fail(
        "--transport tcp is for several processes, and this one is alone; start them with "
        "torchrun, or with --rank, --ranks and --master");
  if (!launch.master.empty())
    fail(
        "--master is where several processes meet, and this one is alone; add --rank and "
        "--ranks, or start them with torchrun or srun");
}

std::unique_ptr<World> world_of(const JoinOptions& flags, const Launch& launch,
                                std::chrono::nanoseconds patience, Control& control) {
  const std::string& name = flags.transport;
  if (name == "local") {
    if (launch.size > 1)
      fail("{} {} processes, and --transport local runs in one; use --transport {}", says(launch),
           launch.size, mpi_can_connect() ? "mpi" : "tcp");
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

std::string found_by(const Launch& l) {
  if (l.launcher.empty()) return "nobody has started others";
  return by_flags(l) ? l.found : fmt::format("{}'s {}", l.launcher, l.found);
}

}  // namespace ringsched
