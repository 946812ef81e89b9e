#include "run_world.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "ringsched/scheduler/error.hpp"

namespace ringsched {

namespace {

std::unique_ptr<World> mpi_world() {
  void* module = ::dlopen("libringsched_mpi.so", RTLD_NOW | RTLD_GLOBAL);
  if (!module)
    fail(
        "the mpi transport is not there: {}; install libopenmpi-dev and openmpi-bin and build "
        "again",
        ::dlerror());
  const auto make = reinterpret_cast<MakeWorld>(::dlsym(module, "ringsched_make_mpi_world"));
  if (!make) fail("the mpi transport is not there: {}", ::dlerror());
  return std::unique_ptr<World>(make());
}

// Whether whoever has started this process left something by which MPI finds the others. Open MPI
// ends a process of srun at once if there is nothing, so this is asked before.
bool mpi_can_connect() {
  for (const char* name : {"OMPI_COMM_WORLD_SIZE", "PMIX_RANK", "PMI_RANK", "PMI_FD"})
    if (std::getenv(name)) return true;
  return false;
}

void add_up(World& world, std::vector<double>& column) {
  const std::vector<std::string> all = world.gather(
      std::string(reinterpret_cast<const char*>(column.data()), column.size() * sizeof(double)));
  std::fill(column.begin(), column.end(), 0);
  for (const std::string& text : all)
    for (std::size_t i = 0; i < column.size(); ++i) {
      double x;
      std::copy_n(text.data() + i * sizeof x, sizeof x, reinterpret_cast<char*>(&x));
      column[i] += x;
    }
}

}  // namespace

std::unique_ptr<World> world_of(const std::string& transport, const Launch& launch) {
  const std::string name = !transport.empty() ? transport : launch.size > 1 ? "mpi" : "local";
  if (name == "local") {
    if (launch.size > 1)
      fail("{} has started {} processes, and --transport local runs in one; use --transport mpi",
           launch.launcher, launch.size);
    return make_local_world();
  }
  if (name != "mpi") fail("--transport is '{}', allowed are local and mpi", name);
  const auto alone = [&] {
    fail(
        "{} has started {} processes, but MPI knows of one; start them with mpirun -n {}, or with "
        "srun --mpi=pmix",
        launch.launcher, launch.size, launch.size);
  };
  if (launch.size > 1 && !mpi_can_connect()) alone();
  std::unique_ptr<World> world = mpi_world();
  if (world->size() == 1 && launch.size > 1) alone();
  return world;
}

Timeline joined(World& world, const Plan& plan, const Timeline& own) {
  std::string text;
  for (std::uint32_t id = 0; id < plan.tasks.size(); ++id)
    if (world.rank_of(plan.tasks[id].worker(), plan.problem.workers) == world.rank()) {
      const std::int64_t times[2] = {own.tasks[id].start_ps, own.tasks[id].end_ps};
      text.append(reinterpret_cast<const char*>(times), sizeof times);
    }
  const std::vector<std::string> all = world.gather(text);
  std::vector<std::size_t> at(all.size(), 0);
  Timeline out = own;
  for (std::uint32_t id = 0; id < plan.tasks.size(); ++id) {
    const std::uint32_t rank = world.rank_of(plan.tasks[id].worker(), plan.problem.workers);
    std::int64_t times[2];
    std::copy_n(all[rank].data() + at[rank], sizeof times, reinterpret_cast<char*>(times));
    at[rank] += sizeof times;
    out.tasks[id].start_ps = times[0];
    out.tasks[id].end_ps = times[1];
  }
  return out;
}

std::vector<CheckedResults> checked(World& world, Watchdog& watchdog, const Plan& plan,
                                    const Inputs& inputs, const Execution& run,
                                    const CheckOptions& options) {
  constexpr const char* checks = "checking its numbers";
  constexpr const char* others = "waiting for others that check their numbers";
  watchdog.works(checks);
  ForwardRows forward;
  if (needs_forward_rows(plan.problem, options)) {
    forward = forward_rows(plan, inputs, run.results());
    watchdog.waits(others);
    for (auto* column : {&forward.lse, &forward.delta, &forward.size}) add_up(world, *column);
    watchdog.works(checks);
  }
  std::vector<CheckedResults> own = check_results(plan, inputs, run.results(), options, forward);
  if (world.size() == 1) return own;
  std::string text;
  for (const CheckedResults& c : own)
    text += fmt::format("{}\t{}\t{}\t{}\t{}\t{}\n", c.name, c.rows, c.largest_error,
                        c.largest_value, c.of_bound, c.worst);
  std::vector<CheckedResults> out;
  watchdog.waits(others);
  const std::vector<std::string> all = world.gather(text);
  for (const std::string& one : all) {
    std::size_t i = 0, at = 0;
    for (; at < one.size(); ++i) {
      const std::size_t end = one.find('\n', at);
      std::vector<std::string> cells(1);
      for (const char c : one.substr(at, end - at)) {
        if (c == '\t')
          cells.emplace_back();
        else
          cells.back() += c;
      }
      CheckedResults c{cells[0],
                       std::stoll(cells[1]),
                       std::strtod(cells[2].c_str(), nullptr),
                       std::strtod(cells[3].c_str(), nullptr),
                       std::strtod(cells[4].c_str(), nullptr),
                       cells[5]};
      if (i == out.size())
        out.push_back(c);
      else
        out[i].add(c);
      at = end + 1;
    }
  }
  return out;
}

}  // namespace ringsched
