#include "backends/cuda/library.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <mutex>

#define NV_CUDNN_FRONTEND_USE_DYNAMIC_LOADING
// We neither write nor read plans, and without that code this compiles in half the time.
#define CUDNN_FRONTEND_SKIP_JSON_LIB
#include <cudnn_frontend.h>

#include "ringsched/runtime/control.hpp"

namespace cudnn_frontend {
void* cudnn_dlhandle = nullptr;
}

namespace ringsched::cuda {

namespace {

namespace fe = cudnn_frontend;

enum Name : std::int64_t {  // of tensors
  kQuery = 1,
  kKey,
  kValue,
  kOutput,
  kStats,
  kOutputGradient,
  kQueryGradient,
  kKeyGradient,
  kValueGradient,
};

// Why cuDNN is missing; empty: it is there.
const std::string& absence() {
  static const std::string why = [] {
    fe::cudnn_dlhandle = ::dlopen("libcudnn.so.9", RTLD_NOW | RTLD_GLOBAL);
    if (!fe::cudnn_dlhandle) return fmt::format("cuDNN is not there: {}", ::dlerror());
    try {  // which looks for CUDA's own libraries
      int version = 0;
      fe::detail::cuda_runtime_get_version(&version);
      return std::string();
    } catch (const std::exception& e) {
      return fmt::format("cuDNN cannot be used: {}", e.what());
    }
  }();
  return why;
}

cudnnStatus_t set_stream(cudnnHandle_t handle, cudaStream_t stream) {
  const auto function =
      reinterpret_cast<decltype(&cudnnSetStream)>(fe::detail::get_symbol("cudnnSetStream"));
  return function ? function(handle, stream) : CUDNN_STATUS_NOT_SUPPORTED;
}

int capability_of(int gpu) {
  int major = 0, minor = 0;
  cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, gpu);
  cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, gpu);
  return 10 * major + minor;
}

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

using Tensor = std::shared_ptr<fe::graph::Tensor_attributes>;

// [1][heads][rows][dim] of a matrix stored as [rows][heads][dim].
fe::graph::Tensor_attributes matrix(Name name, std::int64_t rows, std::int64_t heads,
                                    std::int64_t dim) {
  return fe::graph::Tensor_attributes()
      .set_uid(name)
      .set_dim({1, heads, rows, dim})
      .set_stride({rows * heads * dim, dim, heads * dim, 1});
}

void as_matrix(const Tensor& t, Name name, std::int64_t rows, std::int64_t heads,
               std::int64_t dim) {
  t->set_output(true)
      .set_uid(name)
      .set_dim({1, heads, rows, dim})
      .set_stride({rows * heads * dim, dim, heads * dim, 1});
}

struct Made {
  std::string refusal;
  std::shared_ptr<fe::graph::Graph> graph;
  std::int64_t workspace = 0;
};

// The GPU that graphs are for; with properties, it is only described to cuDNN.
struct Target {
  cudnnHandle_t handle = nullptr;
  std::shared_ptr<fe::DeviceProperties> properties;
  int capability = 0;  // 90: 9.0
  bool builds = true;  // plans, after cuDNN has said that it takes a graph
};

std::shared_ptr<fe::graph::Graph> graph_of(const Shape& s, const Target& target) {
  auto graph = std::make_shared<fe::graph::Graph>();
  if (target.properties) {
    graph->set_device_properties(target.properties);
    graph->set_sm_version(target.capability);
  }
  graph->set_io_data_type(s.dtype == Dtype::Bf16 ? fe::DataType_t::BFLOAT16 : fe::DataType_t::HALF)
      .set_intermediate_data_type(fe::DataType_t::FLOAT)
      .set_compute_data_type(fe::DataType_t::FLOAT);
  const std::int64_t heads = s.heads, kv_heads = s.kv_heads, dim = s.head_dim;
  const auto scale = static_cast<float>(1 / std::sqrt(static_cast<double>(dim)));
  const Tensor q = graph->tensor(matrix(kQuery, s.rows, heads, dim).set_name("query"));
  const Tensor k = graph->tensor(matrix(kKey, s.keys, kv_heads, dim).set_name("key"));
  const Tensor v = graph->tensor(matrix(kValue, s.keys, kv_heads, dim).set_name("value"));
  const auto stats = [&](fe::graph::Tensor_attributes& t) {
    t.set_uid(kStats)
        .set_dim({1, heads, s.rows, 1})
        .set_stride({heads * s.rows, s.rows, 1, 1})
        .set_data_type(fe::DataType_t::FLOAT);
  };
  if (!s.backward) {
    auto how = fe::graph::SDPA_attributes().set_name("attend").set_generate_stats(true);
    how.set_attn_scale(scale);
    if (s.causal) how.set_causal_mask(true);
    auto [output, lse] = graph->sdpa(q, k, v, how);
    as_matrix(output, kOutput, s.rows, heads, dim);
    lse->set_output(true);
    stats(*lse);
    return graph;
  }
  const Tensor o = graph->tensor(matrix(kOutput, s.rows, heads, dim).set_name("output"));
  const Tensor g = graph->tensor(matrix(kOutputGradient, s.rows, heads, dim).set_name("gradient"));
  fe::graph::Tensor_attributes given;
  stats(given);
  const Tensor lse = graph->tensor(given.set_name("stats"));
  auto how = fe::graph::SDPA_backward_attributes().set_name("attend backward");
  how.set_attn_scale(scale);
  if (s.causal) how.set_causal_mask(true);
  auto [dq, dk, dv] = graph->sdpa_backward(q, k, v, o, g, lse, how);
  as_matrix(dq, kQueryGradient, s.rows, heads, dim);
  as_matrix(dk, kKeyGradient, s.keys, kv_heads, dim);
  as_matrix(dv, kValueGradient, s.keys, kv_heads, dim);
  return graph;
}

Made made(const Shape& s, const Target& target) {
  Made out;
  const auto refused = [&](fe::error_t status) {
    if (status.is_good()) return false;
    out.refusal = fmt::format("cuDNN refuses the {} pass with head dimension {} on sm_{}: {}",
                              s.backward ? "backward" : "forward", s.head_dim, target.capability,
                              first_line(status.get_message()));
    out.graph.reset();
    return true;
  };
  try {
    out.graph = graph_of(s, target);
    if (!refused(out.graph->validate()) &&
        !refused(out.graph->build_operation_graph(target.handle)) &&
        !refused(out.graph->create_execution_plans({fe::HeurMode_t::A})) &&
        !refused(out.graph->check_support()) && target.builds && !refused(out.graph->build_plans()))
      refused(out.graph->get_workspace_size(out.workspace));
  } catch (const std::exception& e) {
    refused({fe::error_code_t::GRAPH_NOT_SUPPORTED, e.what()});
  }
  return out;
}

}  // namespace

struct Library::Plans {
  Target target;
  std::map<Shape, Made> by_shape;
  Spent handles, making;

  // Of a shape that was asked about before the run.
  void execute(const Shape& s, cudnnHandle_t with, std::unordered_map<std::int64_t, void*>& tensors,
               std::byte* workspace) {
    fe::error_t status = by_shape.at(s).graph->execute(with, tensors, workspace);
    if (status.is_bad())
      throw RunFailed(fmt::format("cuDNN: {}", first_line(status.get_message())));
  }
};

Library::Library() {
  // Never released: cuDNN may be gone before what is destroyed at the end of a process.
  static auto& of_gpus = *new std::map<int, std::shared_ptr<Plans>>;
  int gpu = 0;
  cudaGetDevice(&gpu);
  std::shared_ptr<Plans>& known = of_gpus[gpu];
  if (!known) {
    known = std::make_shared<Plans>();
    cudnnHandle_t& handle = known->target.handle;
    if (absence().empty() && fe::detail::create_handle(&handle) != CUDNN_STATUS_SUCCESS)
      handle = nullptr;
    known->target.capability = capability_of(gpu);
  }
  plans_ = known;
}

Library::Library(const std::string& description, int capability, bool builds)
    : plans_(std::make_shared<Plans>()) {
  if (!absence().empty()) return;
  Target& target = plans_->target;
  target = {nullptr, std::make_shared<fe::DeviceProperties>(), capability, builds};
  fe::error_t status = target.properties->deserialize({description.begin(), description.end()});
  if (status.is_bad())
    throw RunFailed(fmt::format("cuDNN refuses the description: {}", status.get_message()));
}

Library::~Library() = default;

std::string Library::version() const {
  if (!absence().empty()) return absence();
  if (!plans_->target.handle) return "cuDNN does not start on this GPU";
  const auto v = fe::detail::get_backend_version();
  return fmt::format("cuDNN {}.{}.{}", v / 10000, v / 100 % 100, v % 100);
}

std::string Library::refusal(const Shape& shape) {
  if (!plans_->target.handle && !plans_->target.properties) return version();
  if (shape.backward && shape.rows < 2) return "cuDNN's backward pass is wrong for one row";
  asked_.insert(shape);
  const auto [at, is_new] = plans_->by_shape.try_emplace(shape);
  if (is_new) {
    const Spent::Here spending(plans_->making, 1);
    at->second = made(shape, plans_->target);
  }
  return at->second.refusal;
}

std::string Library::costs() const {
  const auto text = [](const Spent& s, const char* what) {
    return fmt::format("{} {} in {:.2g} s", s.count, what, s.seconds);
  };
  return text(plans_->handles, "handles of cuDNN") + ", " + text(plans_->making, "plans");
}

bool Library::takes(cudaStream_t stream) const {
  if (!plans_->target.handle) return true;
  const bool good = set_stream(plans_->target.handle, stream) == CUDNN_STATUS_SUCCESS;
  set_stream(plans_->target.handle, nullptr);
  return good;
}

std::int64_t Library::workspace_bytes() const {
  std::int64_t most = 0;
  for (const Shape& shape : asked_)
    if (const Made& m = plans_->by_shape.at(shape); m.graph) most = std::max(most, m.workspace);
  return most;
}

Library::Caller::Caller(Library& library, cudaStream_t stream, std::byte* workspace)
    : library_(library), workspace_(workspace) {
  if (!library.plans_->target.handle) return;
  const Spent::Here spending(library.plans_->handles, 1);
  cudnnHandle_t handle = nullptr;
  if (fe::detail::create_handle(&handle) != CUDNN_STATUS_SUCCESS ||
      set_stream(handle, stream) != CUDNN_STATUS_SUCCESS)
    throw RunFailed("cannot create a cuDNN handle");
  handle_ = handle;
}

Library::Caller::~Caller() {
  if (handle_) fe::detail::destroy_handle(static_cast<cudnnHandle_t>(handle_));
}

bool Library::Caller::call(const DeviceCall& what) {
  if (const auto* forward = std::get_if<LibraryForward>(&what))
    call(*forward);
  else if (const auto* backward = std::get_if<LibraryBackward>(&what))
    call(*backward);
  else
    return false;
  return true;
}

void Library::Caller::call(const LibraryForward& f) {
  const auto writable = [](const std::byte* p) { return const_cast<std::byte*>(p); };
  std::unordered_map<std::int64_t, void*> tensors = {{kQuery, writable(f.query)},
                                                     {kKey, writable(f.key)},
                                                     {kValue, writable(f.value)},
                                                     {kOutput, f.output},
                                                     {kStats, f.stats}};
  library_.plans_->execute(f.shape, static_cast<cudnnHandle_t>(handle_), tensors, workspace_);
}

void Library::Caller::call(const LibraryBackward& f) {
  const auto writable = [](const std::byte* p) { return const_cast<std::byte*>(p); };
  std::unordered_map<std::int64_t, void*> tensors = {{kQuery, writable(f.query)},
                                                     {kKey, writable(f.key)},
                                                     {kValue, writable(f.value)},
                                                     {kOutput, writable(f.output)},
                                                     {kOutputGradient, writable(f.output_gradient)},
                                                     {kStats, const_cast<float*>(f.stats)},
                                                     {kQueryGradient, f.query_gradient},
                                                     {kKeyGradient, f.key_gradient},
                                                     {kValueGradient, f.value_gradient}};
  library_.plans_->execute(f.shape, static_cast<cudnnHandle_t>(handle_), tensors, workspace_);
}

}  // namespace ringsched::cuda
