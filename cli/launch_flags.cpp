#include "launch_flags.hpp"

#include <CLI/CLI.hpp>

namespace ringsched {

void JoinFlags::add_to(CLI::App& app, bool nccl) {
  has_nccl = nccl;
  if (nccl)
    app.add_option("--nccl-ctas", ctas,
                   "thread blocks that NCCL may take of a GPU; 0: as\nmany as it likes "
                   "(0)")
        ->type_name("N");

  app.add_option("--transport", transport,
                 "what carries messages. local: workers are threads of\nthis process; tcp and mpi: "
                 "they are spread over\nseveral (mpi where mpirun or srun --mpi has started\nthem, "
                 "tcp where torchrun or flags say so)" +
                     std::string(nccl ? ";\nnccl: GPUs, one for each process" : ""))
      ->type_name("NAME");
  app.add_option("--rank", launch.rank, "the number of this process, if no launcher says it")
      ->type_name("N");
  app.add_option("--ranks", launch.ranks, "how many processes there are")->type_name("N");
  app.add_option("--master", launch.master,
                 "where process 0 is and the others meet, in place of\nMASTER_ADDR and MASTER_PORT")
      ->type_name("HOST:PORT");
}

void BackendFlags::add_to(CLI::App& app) {
  app.add_option("--backend", name, "cpu, or cuda: NVIDIA GPUs (cpu)")->type_name("NAME");
  app.add_flag("--graph", graph, "cuda: capture the run once as a graph, and launch\nthat");
}

}  // namespace ringsched
