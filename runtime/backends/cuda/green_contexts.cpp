#include "backends/cuda/green_contexts.hpp"

#include <fmt/format.h>

#include "backends/cuda/api.hpp"
#include "backends/cuda/partitions.hpp"

namespace ringsched::cuda {

namespace {

constexpr unsigned kWithGreenContexts = 12050;  // the CUDA version whose driver has them all

struct Driver {
  decltype(&cuDeviceGet) device_get;
  decltype(&cuDeviceGetDevResource) resource;
  decltype(&cuDevSmResourceSplitByCount) split;
  decltype(&cuDevResourceGenerateDesc) describe;
  decltype(&cuGreenCtxCreate) create;
  decltype(&cuGreenCtxDestroy) destroy;
  decltype(&cuGreenCtxStreamCreate) make_stream;

  bool complete() const {
    return device_get && resource && split && describe && create && destroy && make_stream;
  }
};

const Driver& driver() {
  static const Driver functions = [] {
    Driver d{};
    const auto find = [](auto& function, const char* name, unsigned version) {
      function = driver_function<std::remove_reference_t<decltype(function)>>(name, version);
    };
    find(d.device_get, "cuDeviceGet", 2000);
    find(d.resource, "cuDeviceGetDevResource", 12040);
    find(d.split, "cuDevSmResourceSplitByCount", 12040);
    find(d.describe, "cuDevResourceGenerateDesc", 12040);
    find(d.create, "cuGreenCtxCreate", 12040);
    find(d.destroy, "cuGreenCtxDestroy", 12040);
    find(d.make_stream, "cuGreenCtxStreamCreate", kWithGreenContexts);
    return d;
  }();
  return functions;
}

}  // namespace

std::unique_ptr<GreenContexts> GreenContexts::make(int gpu, std::uint32_t workers,
                                                   std::string& why) {
  const Driver& d = driver();
  if (!d.complete()) {
    why = "the driver has no green contexts";
    return nullptr;
  }
  CUdevice device{};
  CUdevResource all{};
  if (d.device_get(&device, gpu) != CUDA_SUCCESS ||
      d.resource(device, &all, CU_DEV_RESOURCE_TYPE_SM) != CUDA_SUCCESS) {
    why = "the driver does not list the GPU's multiprocessors";
    return nullptr;
  }
  const Multiprocessors has{all.sm.smCount, all.sm.minSmPartitionSize,
                            all.sm.smCoscheduledAlignment};
  Partition asked = part(has, workers);
  if (asked.each == 0) {
    why = fmt::format("{} multiprocessors are too few for {} partitions of at least {}", has.all,
                      workers, has.least);
    return nullptr;
  }
  std::vector<CUdevResource> parts(workers);
  CUdevResource rest{};
  unsigned count = 0;
  CUresult split = CUDA_SUCCESS;
  // There may be fewer than their number allows, if they do not fill whole blocks.
  for (; asked.each > 0 && count < workers; asked = smaller(has, asked, workers)) {
    count = workers;
    split = d.split(parts.data(), &count, &all, &rest, 0, asked.each);
    if (split != CUDA_SUCCESS) break;
  }
  if (split != CUDA_SUCCESS || count < workers) {
    why = fmt::format("the driver does not split {} multiprocessors into {} (error {}, {})",
                      has.all, workers, static_cast<int>(split), count);
    return nullptr;
  }
  const auto make_context = [&](CUdevResource& of, CUgreenCtx& context) {
    CUdevResourceDesc description{};
    const CUresult described = d.describe(&description, &of, 1);
    if (described != CUDA_SUCCESS) return described;
    return d.create(&context, description, device, CU_GREEN_CTX_DEFAULT_STREAM);
  };
  std::unique_ptr<GreenContexts> out(new GreenContexts());
  for (std::uint32_t w = 0; w < workers; ++w) {
    CUgreenCtx context{};
    if (const CUresult made = make_context(parts[w], context); made != CUDA_SUCCESS) {
      why = fmt::format("the driver makes no green context (error {})", static_cast<int>(made));
      return nullptr;
    }
    out->contexts_.push_back(context);
    out->sizes_.push_back(parts[w].sm.smCount);
  }
  if (rest.sm.smCount > 0 && make_context(rest, out->messages_) == CUDA_SUCCESS)
    out->message_multiprocessors_ = rest.sm.smCount;
  return out;
}

GreenContexts::~GreenContexts() {
  if (messages_) driver().destroy(messages_);
  for (const CUgreenCtx context : contexts_) driver().destroy(context);
}

namespace {

cudaStream_t stream_of(CUgreenCtx context, int priority) {
  CUstream stream{};
  require(driver().make_stream(&stream, context, CU_STREAM_NON_BLOCKING, priority),
          "making a stream in a partition");
  return stream;
}

}  // namespace

cudaStream_t GreenContexts::make_stream(std::uint32_t worker, int priority) const {
  return stream_of(contexts_[worker], priority);
}

cudaStream_t GreenContexts::make_message_stream(std::uint32_t receiver, int priority) const {
  return stream_of(messages_ ? messages_ : contexts_[receiver], priority);
}

}  // namespace ringsched::cuda
