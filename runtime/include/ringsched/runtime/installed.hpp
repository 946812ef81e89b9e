// Which parts of MPI, CUDA, cuDNN and NCCL are installed, for people who ask why something cannot
// run.
#pragma once

#include <string>

namespace ringsched {

struct Installed {
  std::string found;    // "Open MPI 4.1.4"; empty: nothing
  std::string missing;  // why it is of no use, in one line; empty: it can be used
};

Installed installed_mpi();   // the mpi transport, with the library that it uses
Installed installed_gpus();  // GPUs and their driver, whether or not ringsched was built for them
Installed installed_cuda();  // the cuda backend
Installed installed_cudnn();
Installed installed_nccl();  // the nccl transport, with the library that it uses

}  // namespace ringsched
