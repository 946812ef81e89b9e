#include "transports/nccl/communicator.hpp"

#include <fmt/format.h>

#include "ringsched/scheduler/words.hpp"

namespace ringsched::nccl {

namespace {

using namespace std::chrono_literals;

std::string version_text(int v) {
  return fmt::format("{}.{}.{}", v / 10000, v / 100 % 100, v % 100);
}

}  // namespace

void require(cudaError_t status, const char* what) {
  if (status != cudaSuccess)
    throw RunFailed(fmt::format("{}: {}", what, cudaGetErrorString(status)));
}

std::string take_gpu(const NcclOptions& options) {
  int driver = 0, count = 0;
  cudaDriverGetVersion(&driver);
  if (driver == 0) throw RunFailed("no GPU: no NVIDIA driver is installed");
  require(cudaGetDeviceCount(&count), "no GPU");
  const int gpu = static_cast<int>(options.place % static_cast<std::uint32_t>(count));
  require(cudaSetDevice(gpu), "choosing a GPU");
  cudaDeviceProp about{};
  require(cudaGetDeviceProperties(&about, gpu), "asking what GPU there is");
  return about.name;
}

std::string require_version() {
  int version = 0;
  if (ncclGetVersion(&version) != ncclSuccess) throw RunFailed("cannot get the version of NCCL");
  if (version < NCCL_VERSION_CODE)
    throw RunFailed(fmt::format("NCCL {} is older than {}, which this was built against",
                                version_text(version), version_text(NCCL_VERSION_CODE)));
  return version_text(version);
}

Communicator::Communicator(World& world, const Control& control, const NcclOptions& options,
                           Calls calls)
    : control_(control), patience_(options.patience) {
  require_version();
  ncclUniqueId id{};
  if (world.rank() == 0 && ncclGetUniqueId(&id) != ncclSuccess)
    throw RunFailed(fmt::format("cannot start NCCL: {}", ncclGetLastError(nullptr)));
  const std::string all = world.gather({id.internal, sizeof id.internal})[0];
  if (all.size() != sizeof id.internal) throw RunFailed("rank 0 sent no NCCL id");
  std::copy(all.begin(), all.end(), id.internal);
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = calls == Calls::Wait ? 1 : 0;
  if (options.ctas > 0) {
    config.minCTAs = 1;
    config.maxCTAs = options.ctas;
  }
  try {
    require_success(ncclCommInitRankConfig(&comm_, static_cast<int>(world.size()), id,
                                           static_cast<int>(world.rank()), &config),
                    "joining the others by NCCL");
  } catch (...) {
    if (comm_) ncclCommAbort(comm_);
    throw;
  }
}

Communicator::~Communicator() {
  if (comm_ && !over_) ncclCommAbort(comm_);
}

void Communicator::leave() {
  if (over_) return;
  leaving_ = true;
  try {
    if (memory_) ncclCommDeregister(comm_, memory_);
    require_success(ncclCommFinalize(comm_), "taking leave of NCCL");
    if (!over_.exchange(true)) ncclCommDestroy(comm_);
  } catch (const RunFailed&) {
    if (!over_.exchange(true)) ncclCommAbort(comm_);
  }
}

template <class Done>
void Communicator::until(Done done, const char* what) {
  const auto begun = std::chrono::steady_clock::now();
  while (!done()) {
    if (over_) throw RunFailed(fmt::format("{} was aborted", what));
    if (control_.stopped() && !leaving_) throw RunFailed(control_.why());
    if (control_.abandoned()) throw RunFailed(control_.abandoned_why());
    const auto waited = std::chrono::steady_clock::now() - begun;
    if (waited > patience_)
      throw RunFailed(
          fmt::format("{} took more than {}", what, duration({1000 * patience_.count()})));
    if (waited < 1ms)  // most calls take less than a sleep does
      std::this_thread::yield();
    else
      std::this_thread::sleep_for(50us);
  }
}

void Communicator::settle(const char* what) {
  ncclResult_t state = ncclInProgress;
  until(
      [&] {
        const std::lock_guard lock(calling_);
        if (!over_ && ncclCommGetAsyncError(comm_, &state) != ncclSuccess)
          throw RunFailed(fmt::format("{}: NCCL does not answer", what));
        return state != ncclInProgress;
      },
      what);
  if (state != ncclSuccess)
    throw RunFailed(
        fmt::format("{}: {}: {}", what, ncclGetErrorString(state), ncclGetLastError(comm_)));
}

void Communicator::require_success(ncclResult_t result, const char* what) {
  if (result == ncclInProgress) return settle(what);
  if (result != ncclSuccess)
    throw RunFailed(
        fmt::format("{}: {}: {}", what, ncclGetErrorString(result), ncclGetLastError(comm_)));
}

void Communicator::group(const std::function<void()>& calls) {
  ncclResult_t result = ncclSuccess;
  {
    const std::lock_guard lock(calling_);
    if (over_) throw RunFailed("NCCL messages were aborted");
    require_success(ncclGroupStart(), "starting an NCCL group");
    try {
      calls();
    } catch (...) {
      ncclGroupEnd();
      throw;
    }
    result = ncclGroupEnd();
  }
  // The stream may be used only once NCCL has put its operations there.
  require_success(result, "exchanging messages by NCCL");
}

// Within a group there is nothing to wait for yet.
void Communicator::send(const void* from, std::size_t bytes, int peer, cudaStream_t stream) {
  const ncclResult_t result = ncclSend(from, bytes, ncclInt8, peer, comm_, stream);
  if (result != ncclInProgress) require_success(result, "sending by NCCL");
}
void Communicator::receive(void* to, std::size_t bytes, int peer, cudaStream_t stream) {
  const ncclResult_t result = ncclRecv(to, bytes, ncclInt8, peer, comm_, stream);
  if (result != ncclInProgress) require_success(result, "receiving by NCCL");
}

void Communicator::use_memory(void* first, std::size_t bytes) {
  if (memory_ || bytes == 0) return;
  require_success(ncclCommRegister(comm_, first, bytes, &memory_), "registering memory with NCCL");
}

void Communicator::wait_for(cudaStream_t stream) {
  until(
      [&] {
        look();
        const cudaError_t state = cudaStreamQuery(stream);
        if (state == cudaErrorNotReady) return false;
        require(state, "waiting for NCCL");
        return true;
      },
      "waiting for messages by NCCL");
}

void Communicator::look() const {
  ncclResult_t state = ncclSuccess;
  const std::lock_guard lock(calling_);
  if (over_) return;
  if (ncclCommGetAsyncError(comm_, &state) != ncclSuccess) throw RunFailed("NCCL does not answer");
  if (state != ncclSuccess && state != ncclInProgress)
    throw RunFailed(
        fmt::format("NCCL: {}: {}", ncclGetErrorString(state), ncclGetLastError(comm_)));
}

// As a group, because the stream of one may wait for what another is doing. From here on nobody
// else asks NCCL about them. If it hangs, the process ends without it, at the deadline of a run
// that is given up.
void Communicator::abort_all(std::vector<std::shared_ptr<Communicator>> all) {
  std::erase_if(all, [](const auto& c) { return c->over_.exchange(true); });
  if (all.empty()) return;
  std::thread([all = std::move(all)] {
    std::vector<std::unique_lock<std::mutex>> locks;
    for (const auto& c : all) locks.emplace_back(c->calling_);
    ncclGroupStart();
    for (const auto& c : all) ncclCommAbort(c->comm_);
    ncclGroupEnd();
  }).detach();
}

}  // namespace ringsched::nccl
