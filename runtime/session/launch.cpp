// What started this process, by flags or by launchers' environment variables.
#include <fmt/format.h>

#include <charconv>
#include <cstdlib>
#include <string_view>

#include "ringsched/runtime/world.hpp"
#include "ringsched/scheduler/error.hpp"
#include "ringsched/scheduler/printable.hpp"
#include "ringsched/scheduler/problem.hpp"

namespace ringsched {

namespace {

constexpr const char* kUsualPort = "29500";  // torchrun's, too

std::string variable(const char* name) {
  const char* text = std::getenv(name);
  return text ? text : "";
}

std::optional<std::uint32_t> number(std::string_view text) {
  std::uint32_t n = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), n);
  if (error != std::errc() || end != text.data() + text.size()) return {};
  return n;
}

// The first of "node[07-12,15],login1". Slurm puts process 0 there.
std::string first_host(std::string_view list) {
  const std::size_t bracket = list.find('['), comma = list.find(',');
  if (bracket >= comma) return std::string(list.substr(0, comma));
  std::string_view in = list.substr(bracket + 1);
  const std::size_t end = in.find(']');
  const std::size_t first = in.find_first_of("-,]");
  if (end == in.npos) return {};
  const std::size_t after = in.find(',', end);
  const std::string_view rest = in.substr(end + 1, after == in.npos ? after : after - end - 1);
  return fmt::format("{}{}{}", list.substr(0, bracket), in.substr(0, first), rest);
}

// torchrun's own store uses the port that it names, unless it says that it has none.
std::string torchrun_port(const std::string& port) {
  if (variable("TORCHELASTIC_USE_AGENT_STORE") != "True") return port;
  const auto n = number(port);
  return n ? std::to_string(*n + 1) : port;
}

std::string master_of(const LaunchFlags& flags, const Launch& launch) {
  if (!flags.master.empty()) return flags.master;
  std::string host = variable("MASTER_ADDR"), port = variable("MASTER_PORT");
  if (port.empty()) port = kUsualPort;
  if (host.empty() && launch.launcher == "srun") host = first_host(variable("SLURM_STEP_NODELIST"));
  if (host.empty()) return {};
  if (host.find(':') != host.npos) host = "[" + host + "]";
  return host + ":" + torchrun_port(port);
}

Launch checked(const char* launcher, const char* rank_name, const std::string& rank,
               const char* size_name, const std::string& size) {
  const auto r = number(rank), s = number(size);
  if (r && s && *s > 0 && *s <= kMaxWorkers && *r >= *s)
    fail("{} is {}; with {} {} use {}", rank_name, *r, size_name, *s,
         *s == 1   ? "0"
         : *s == 2 ? "0 or 1"
                   : fmt::format("0 to {}", *s - 1));
  if (!r || !s || *s == 0 || *s > kMaxWorkers)
    fail("{} is '{}' and {} is '{}'; use 1 to {} processes, numbered from 0", rank_name,
         printable(rank), size_name, printable(size), kMaxWorkers);
  Launch l;
  l.launcher = launcher;
  l.found = fmt::format("{} and {}", rank_name, size_name);
  l.rank = *r;
  l.size = *s;
  return l;
}

struct Known {
  const char *launcher, *rank, *size, *local;
};
constexpr Known kKnown[] = {
    {"torchrun", "RANK", "WORLD_SIZE", "LOCAL_RANK"},
    {"mpirun", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK"},
    {"mpirun", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID"},
    {"srun", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID"}};

// Half of a pair means that there are others, which this process would not find. In an sbatch
// script, outside of srun, SLURM_PROCID is alone, and so is the process.
void refuse_halves() {
  for (const Known& k : kKnown) {
    const std::string rank = variable(k.rank), size = variable(k.size);
    if (rank.empty() == size.empty() ||
        (k.rank == std::string_view("SLURM_PROCID") && size.empty()))
      continue;
    if (size.empty())
      fail("{} is '{}', but {} (the number of processes) is not set; set both or neither", k.rank,
           printable(rank), k.size);
    fail("{} is '{}', but {} (the index of this process) is not set; set both or neither", k.size,
         printable(size), k.rank);
  }
}

// With srun --mpi=pmi2 both are set, and Slurm knows where process 0 is.
bool by_slurm_too(const Launch& l) {
  return number(variable("SLURM_PROCID")) == l.rank &&
         number(variable("SLURM_STEP_NUM_TASKS")) == l.size;
}

}  // namespace

Launch launched_by(const LaunchFlags& flags) {
  if (flags.rank.empty() != flags.ranks.empty())
    fail("give both --rank (index of this process) and --ranks (number of processes), or neither");
  Launch l;
  std::string local = variable("LOCAL_RANK");
  if (!flags.rank.empty()) {
    l = checked("flags", "--rank", flags.rank, "--ranks", flags.ranks);
  } else {
    for (const Known& k : kKnown) {
      const std::string rank = variable(k.rank), size = variable(k.size);
      if (rank.empty() || size.empty()) continue;
      l = checked(k.launcher, k.rank, rank, k.size, size);
      local = variable(k.local);
      if (k.rank == std::string_view("PMI_RANK") && by_slurm_too(l)) {
        l.launcher = "srun";
        local = variable("SLURM_LOCALID");
      }
      break;
    }
    if (l.launcher.empty()) refuse_halves();
  }
  l.local_rank = number(local);
  l.master = master_of(flags, l);
  return l;
}

}  // namespace ringsched
