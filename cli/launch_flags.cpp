#include "launch_flags.hpp"

#include <fmt/format.h>
#include <CLI/CLI.hpp>

namespace ringsched {

void JoinFlags::add_to(CLI::App& app, bool nccl) {
  has_nccl = nccl;
  const auto flag = [&](const char* name, std::string& value, const char* type,
                        const std::string& help) {
    app.add_option(name, value, help)->type_name(type)->group("Processes");
  };
  if (nccl)
    flag("--nccl-ctas", ctas, "N",
         "thread blocks that NCCL may use per GPU; 0 = NCCL decides (default 0)");
  flag("--transport", transport, "NAME",
       fmt::format("how messages travel: local (workers are threads of one process), tcp{} mpi{} "
                   "(default: mpi under mpirun or srun --mpi, tcp under torchrun or with --rank, "
                   "else local)",
                   nccl ? "," : " or", nccl ? " or nccl (one GPU per process)" : ""));
  flag("--rank", launch.rank, "N",
       "index of this process, counting from 0 (default: set by the launcher)");
  flag("--ranks", launch.ranks, "N", "number of processes (default: set by the launcher)");
  flag("--master", launch.master, "HOST:PORT",
       "address of rank 0 (default: the environment variables MASTER_ADDR and "
       "MASTER_PORT)");
}

void JoinFlags::add_exchanges_to(CLI::App& app) {
  app.add_option("--mpi-exchanges", exchanges,
                 "with --transport mpi, what carries out an exchange (default collectives)\n"
                 "collectives: an MPI collective\nmessages: point-to-point MPI messages")
      ->type_name("NAME")
      ->group("Processes");
}

void BackendFlags::add_to(CLI::App& app) {
  app.add_option("--backend", name, "cpu, or cuda for NVIDIA GPUs (default cpu)")
      ->type_name("NAME")
      ->group("Run");
  app.add_flag("--graph", graph,
               "only with --backend cuda: capture the run as a CUDA graph and launch the graph")
      ->group("Run");
}

}  // namespace ringsched
